"""Code that the idioms of recurrent layers share."""
