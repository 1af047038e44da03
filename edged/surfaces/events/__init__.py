"""What happens on the bench, told to whoever listens: ``/events`` and the bench page's socket.

``hub`` has the topics and the readers, ``feeds`` says where events come from,
``socket`` is the WebSocket.
"""
