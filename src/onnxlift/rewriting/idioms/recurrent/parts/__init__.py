"""What the idioms of recurrent layers share."""
