"""The programs that are put together from the rest."""
