#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: boto3 and an object store outside of the job: uploads and downloads in parts by threads, small objects, listings
# Needs: python3-boto3
# Site: s3
#SBATCH --job-name=s3-outside --ntasks=1 --output=log
set -eu
# As for most stores but Amazon's:
export AWS_REQUEST_CHECKSUM_CALCULATION=when_required AWS_RESPONSE_CHECKSUM_VALIDATION=when_required
export AWS_ACCESS_KEY_ID=alice AWS_SECRET_ACCESS_KEY=secret AWS_DEFAULT_REGION=us-east-1
cat >work.py <<'PY'
import hashlib, io, os, random, threading, time
import boto3

s3 = boto3.client("s3", endpoint_url="http://ctl:9000") # with its defaults: a request is tried again after an error of the connection
bucket = "job" + os.environ["SLURM_JOB_ID"]
s3.create_bucket(Bucket=bucket)
print("bucket made", flush=True)

def save_states():
    for step in range(0, 60, 5):
        state = random.Random(step).randbytes(1_000_000 if step % 20 else 17_000_000) # above 8 MB: in parts
        s3.upload_fileobj(io.BytesIO(state), bucket, f"states/{step:03}")
        time.sleep(0.3)
        got = io.BytesIO()
        s3.download_fileobj(bucket, f"states/{step:03}", got)
        states.append((step, hashlib.sha256(got.getvalue()).hexdigest()))
        time.sleep(0.2)

def write_metrics():
    for step in range(60):
        s3.put_object(Bucket=bucket, Key=f"metrics/{step:03}.json", Body=b'{"step": %d, "loss": %.6f}' % (step, 10 / (step + 1)), Metadata={"step": str(step)})
        if step % 20 == 19:
            listed = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="metrics/", PaginationConfig={"PageSize": 7})
            print("metrics", [entry["ETag"][1:9] for page in listed for entry in page["Contents"]], flush=True)
        time.sleep(0.1)

states = []
threads = [threading.Thread(target=save_states), threading.Thread(target=write_metrics)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for step, digest in states:
    print(step, digest)
for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]:
    if entry["Key"].startswith("states/"):
        print(entry["Key"], entry["Size"], entry["ETag"])
    s3.delete_object(Bucket=bucket, Key=entry["Key"])
s3.delete_bucket(Bucket=bucket)
PY
python3 work.py
