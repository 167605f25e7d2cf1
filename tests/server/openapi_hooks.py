"""What openapi_test.py has schemathesis do with a request before it is sent: answers stay short."""

import schemathesis

MOST = 3
LIMITS = {
    "/v1/responses": "max_output_tokens",
    "/completion": "n_predict",
    "/completions": "n_predict",
    "/infill": "n_predict",
}


def shorten(fields, name):
    given = fields.get(name)
    is_whole = isinstance(given, (int, float)) and not isinstance(given, bool)
    if given is None or (is_whole and (given < 0 or given > MOST)):
        fields[name] = MOST


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    if case.path.startswith("/api/"):
        if body.get("options") is None:
            body["options"] = {}
        if isinstance(body["options"], dict):
            shorten(body["options"], "num_predict")
        return
    shorten(body, LIMITS.get(case.path, "max_tokens"))
    if isinstance(body.get("n"), int) and body["n"] > 2:
        body["n"] = 2
