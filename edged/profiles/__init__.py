"""What a profile says, what it allows, and what raw SCPI and answers mean by it. Pure."""
