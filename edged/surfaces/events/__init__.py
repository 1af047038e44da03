"""What happens on the bench, told to whoever listens: ``/events`` and the bench page's socket.

``hub`` has the topics and the readers, ``feeds`` and ``values`` say where events come from,
``socket`` is the WebSocket.
"""
