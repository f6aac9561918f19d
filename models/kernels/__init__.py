"""Kernels of a decoder layer, written in TileLang; a file each. Importing one imports TileLang.

Weights are stored as Hugging Face stores them: [output features, input features].
"""
