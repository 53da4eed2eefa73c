"""Job files for a GPU, as dicts, and small ones for CPUs, to try the tests themselves without a GPU."""

GPU, CPU = "gpu", "cpu"
ADAMW = {"adamw": {"learningRate": 6e-4, "beta1": 0.9, "beta2": 0.95, "weightDecay": 0.1}}
GPT2 = {"preset": "gpt2-124m", "context": 1024, "vocabulary": 50257}
# The preset that trains on CPUs.
SMALL_GPT = {"preset": "gpt", "context": 32, "vocabulary": 256}


def job(name, slots, ranks=1, **train):
    return {"apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks, "slots": slots,
            "train": {"seed": 1, "device": "cuda" if slots == GPU else "cpu", **train}}


def cnn(name, data, slots, ranks=1, **train):
    return job(name, slots, ranks, **{
        "epochs": 3, "globalBatchSize": 60, "data": {"dir": str(data)}, "model": {"preset": "cnn"},
        "optimizer": {"sgd": {"learningRate": 0.05, "momentum": 0.9}}, **train})


def gpt(name, tokens, slots, batch, size=None, **train):
    """`tokens`: the file to train on and to test on."""
    size = size or (GPT2 if slots == GPU else SMALL_GPT)
    return job(name, slots, **{
        "globalBatchSize": batch, "evaluateEvery": 0, "model": {"preset": size["preset"]},
        "data": {"kind": "tokens", "train": [tokens], "test": [tokens], "context": size["context"],
                 "vocabulary": size["vocabulary"]},
        "optimizer": ADAMW, **train})
