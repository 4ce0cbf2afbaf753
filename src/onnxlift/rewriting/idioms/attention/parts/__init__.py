"""Code that the idioms of attention share: keys, masks, scores, windows, grouped heads."""
