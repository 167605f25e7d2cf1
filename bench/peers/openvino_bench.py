#!/usr/bin/env python3
"""Measures OpenVINO GenAI as llama-bench measures llama.cpp, and prints the same JSON.

Usage: openvino_bench.py -m FILE.gguf [-p PROMPT_TOKENS] [-n NEW_TOKENS] [-t THREADS] [-r REPEATS]

Random tokens each time; prompts of `-p` tokens give one token, new ones follow a prompt of 16.
Reads those GGUF files that openvino-genai reads (llama, qwen2 and qwen3 in some types)."""

import argparse
import json
import random

import numpy
import openvino
import openvino_genai


def speeds(pipeline, prompt, new):
    """Tokens a second of the prompt, and of the tokens after the first."""
    ids = numpy.array([[random.randrange(100, 20000) for _ in range(prompt)]], dtype=numpy.int64)
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = new
    config.ignore_eos = True
    config.do_sample = config.apply_chat_template = False
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids),
                                            openvino.Tensor(numpy.ones_like(ids)))
    metrics = pipeline.generate(inputs, config).perf_metrics
    if metrics.get_num_generated_tokens() != new:
        raise SystemExit(f"{metrics.get_num_generated_tokens()} tokens came instead of {new}")
    decode = 1e3 / metrics.get_tpot().mean if new > 1 else None
    return prompt * 1e3 / metrics.get_ttft().mean, decode


def main():
    parser = argparse.ArgumentParser(description="OpenVINO GenAI in llama-bench's form")
    parser.add_argument("-m", dest="model", required=True)
    parser.add_argument("-p", dest="prefill", type=int, default=512)
    parser.add_argument("-n", dest="decode", type=int, default=128)
    parser.add_argument("-t", dest="threads", type=int, default=2)
    parser.add_argument("-r", dest="repeat", type=int, default=1)
    options = parser.parse_args()
    pipeline = openvino_genai.LLMPipeline(options.model, "CPU",
                                          INFERENCE_NUM_THREADS=options.threads)
    speeds(pipeline, options.prefill, 2)  # compiles for these shapes
    prefill, decode = [], []
    for _ in range(options.repeat):
        prefill.append(speeds(pipeline, options.prefill, 1)[0])
        decode.append(speeds(pipeline, 16, options.decode + 1)[1])
    print(json.dumps([{"n_prompt": options.prefill, "n_gen": 0, "samples_ts": prefill},
                      {"n_prompt": 0, "n_gen": options.decode, "samples_ts": decode}]))


if __name__ == "__main__":
    main()
