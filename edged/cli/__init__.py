"""What a person types: ``edged VERB …``. ``main.VERBS`` is the list; each verb is one module."""
