"""Pictures of measured data: what is to be drawn as values, and the process that draws it."""
