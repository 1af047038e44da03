"""What the verbs share: options and quantities read, results shown.

``options`` reads what most verbs take and finds the running engine; ``output`` shows tables to
people and JSON to programs.
"""
