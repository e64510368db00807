"$HOLO_BINARY" state import state.jsonl
