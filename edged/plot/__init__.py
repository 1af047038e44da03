"""Pictures of measured data: what is to be drawn as values, and the process that draws it.

``figure`` is what a picture shows and ``paper`` what is printed; ``draw`` is the program that draws
both and alone knows matplotlib. Outsiders make a ``Figure`` or a ``Paper`` and give it to
``artist``; a page they have printed by ``browser``.
"""
