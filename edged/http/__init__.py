"""What aiohttp lacks for every port that is served here."""
