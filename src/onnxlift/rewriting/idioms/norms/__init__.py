"""Normalisations, variances and lengths of vectors."""
