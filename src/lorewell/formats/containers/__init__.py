"""Containers: images and archives that hold a document."""
