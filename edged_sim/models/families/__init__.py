"""What simulated instruments of one kind share: wires, settings, what is set and asked alike.

A page for each kind: ``supply``, and ``selected`` for those of which one channel is selected;
``watchdog`` for the timer that some have, and ``keysight_power`` for Keysight's that have it;
``source`` for a voltage or a current, and ``keithley_smu``; ``meter``; ``scope``; ``generator``. A
model takes of its family's what its own manual says too, and writes the rest itself: a family does
not know which model it is, and what only one of them does stays with that one.
"""
