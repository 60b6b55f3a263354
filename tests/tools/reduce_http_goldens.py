#!/usr/bin/env python3
"""reduce_http_goldens.py RECORDED.jsonl > tests/goldens/http/vllm_api.jsonl

Keeps, of HTTP requests recorded against a real server, what the replay test compares: the request, its status and the
field that an error names."""
import json
import sys

PATHS = ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize")

for line in open(sys.argv[1], encoding="utf-8"):
    case = json.loads(line)
    if case["method"] != "POST" or case["path"] not in PATHS or case["id"] == "huge-body":
        continue
    kept = {"id": case["id"], "path": case["path"], "status": case["status"]}
    kept["body"] = case["raw_body"] if "raw_body" in case else json.dumps(case["body"], separators=(",", ":"))
    content_type = case.get("headers", {}).get("content-type")
    if content_type:
        kept["content_type"] = content_type
    print(json.dumps(kept, separators=(",", ":")))
