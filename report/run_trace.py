"""A trace of hw4 (--trace FILE): its tracks in drawing order, and the spans of each."""
from __future__ import annotations

GPU = 2  # the process of the GPU's streams in the trace


class Trace:
    """Tracks (process, thread) in drawing order, and the spans of each in milliseconds. Raises ValueError, KeyError or
    TypeError for a file that is not a trace."""

    def __init__(self, events):
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.tracks = sorted(names, key=lambda place: (place[0], self._group(names[place]), place[1]))
        self.names = names
        self.spans = [((e["pid"], e["tid"]), e["name"], e["ts"] * 1e-3, (e["ts"] + e["dur"]) * 1e-3)
                      for e in events if e["ph"] == "X"]
        if not {track for track, *_ in self.spans} <= set(names):
            raise ValueError("a span on a track without a name")
        self.end = max((to for *_, to in self.spans), default=0.0) or 1.0

    @staticmethod
    def _group(name):
        """Readers, then the thread that feeds the engine, then writers; a GPU's streams keep their order."""
        return {"reader": 0, "main": 1, "writer": 2}.get(name.partition(" ")[0], 3)

    def share(self, worker, since):
        """The fraction of the time from then to the end in which the tracks of this name ('reader', ...) were busy."""
        tracks = [track for track in self.tracks if self.names[track].partition(" ")[0] == worker]
        if not tracks or self.end <= since:
            return 0.0
        busy = sum(max(0.0, to - max(start, since)) for track, _, start, to in self.spans if track in tracks)
        return busy / (len(tracks) * (self.end - since))

    def last(self, stage):
        """The end of the stage's last span; None where it never began."""
        return max((to for _, name, _, to in self.spans if name == stage), default=None)
