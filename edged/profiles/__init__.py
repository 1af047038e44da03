"""What a profile says, what it allows, and what raw SCPI and answers mean by it. Pure.

Read ``model`` first: a profile as values. ``format`` reads it from YAML, ``loading`` and
``library`` from directories; ``match`` says which fits an instrument. ``arguments`` judges what a
caller gave, ``template`` makes SCPI of it, ``answers`` reads what came back, ``raw`` says which
command a line is. ``unit_rules`` is what the owner says of one unit, by which
``owner_rules`` and ``bench_file`` narrow a profile; ``abort`` says
what makes it safe, and what proves that. Outsiders take values of ``model`` and these functions;
``authoring`` is for people who write profiles.
"""
