"""Which equations of notes, and which names of Python, say something else than they compute?"""
