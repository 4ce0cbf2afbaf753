"""Lay out a picture: rows by the longest path, few crossings, straight main chains, in nearly linear time."""
