"""What is on the buses, and what becomes of it.

``schedule`` says when what is looked at; ``buses``, ``lan``, ``serial`` and ``usb`` look;
``hotplug`` hears of changes from the kernel; ``visit`` and ``registering`` ask who is there;
``loop`` drives it all. Outsiders take ``loop.Discovery``.
"""
