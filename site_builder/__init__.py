"""Builds the bilingual documentation site: runs its pages, checks them, renders them."""
