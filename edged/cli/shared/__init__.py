"""What the verbs share: options and quantities read, results shown."""
