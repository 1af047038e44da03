"""Pictures of measured data: what is to be drawn as values, and the process that draws it.

``figure`` is what a picture shows; ``draw`` is the program that draws it and alone knows
matplotlib. Outsiders make a ``Figure`` and give it to ``artist``.
"""
