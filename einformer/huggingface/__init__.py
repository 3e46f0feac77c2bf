"""What do files of Hugging Face say in our terms? A config.json is an architecture with sizes, its tensors our weights."""
