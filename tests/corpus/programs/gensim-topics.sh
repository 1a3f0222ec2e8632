#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: gensim: topics of made-up texts, word vectors, similarities, an index on disk that is mapped
# Needs: python3-gensim
#SBATCH --job-name=gensim-topics --ntasks=1 --output=log
set -eu
export PYTHONHASHSEED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cat >topics.py <<'PY'
import hashlib, random
import numpy as np
from gensim import corpora, models, similarities

random.seed(4)
fields = {f: [f + a + b for a in "aeiou" for b in "knr"] for f in ["b", "d", "g", "l", "m"]}
texts = []
for n in range(400):
    mix = random.sample(sorted(fields), 2)
    texts.append([random.choice(fields[mix[random.random() < 0.2]]) for _ in range(40)])
print("starting", flush=True)
words = corpora.Dictionary(texts)
corpus = [words.doc2bow(t) for t in texts]
lda = None
for turn in range(6):
    if lda is None:
        lda = models.LdaModel(corpus, 5, words, random_state=1, passes=1)
    else:
        lda.update(corpus, passes=2)
    print("topics", turn, [t[1].split('"')[1] for t in lda.show_topics(5, 1)], round(float(lda.log_perplexity(corpus[:50])), 4), flush=True)
tfidf = models.TfidfModel(corpus)
index = similarities.Similarity("index", tfidf[corpus], num_features=len(words), shardsize=100)
print("nearest", [int(np.argsort(-index[tfidf[corpus[n]]].round(4), kind="stable")[1]) for n in range(0, 50, 10)], flush=True)
vectors = models.Word2Vec(vector_size=24, min_count=1, workers=1, seed=3)
vectors.build_vocab(texts)
for epoch in range(12):
    vectors.train(texts, total_examples=len(texts), epochs=2)
    print("vectors", epoch, vectors.wv.most_similar("bak", topn=1)[0][0], flush=True)
vectors.wv.save("vectors")
mapped = models.KeyedVectors.load("vectors", mmap="r")
print("mapped", hashlib.sha256(np.asarray(mapped.vectors).round(4).tobytes()).hexdigest())
documents = models.Doc2Vec([models.doc2vec.TaggedDocument(t, [n]) for n, t in enumerate(texts)], vector_size=16, workers=1, seed=5, epochs=8, min_count=1)
print("documents", hashlib.sha256(documents.dv.vectors.round(4).tobytes()).hexdigest())
PY
python3 -W ignore topics.py
rm -f topics.py index* vectors*
