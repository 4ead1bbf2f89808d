"""Transactions of a program: their publications, participants and ends."""
