"""YAML files that people write and nobody has checked, read into trees that know their places."""
