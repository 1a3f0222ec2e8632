// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// exampleTB stands in for the testing.TB that slurmresttest wants and that an Example does not
// have.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                        {}
func (exampleTB) Cleanup(func())                 {} // the fake server lives as long as the test program
func (exampleTB) Fatalf(format string, a ...any) { log.Fatalf(format, a...) }

// This example requeues and holds a job, and releases it later. On a cluster, the client is made by
//
//	slurmrest.New(slurmrest.Config{Address: "unix:/run/slurmrestd/slurmrestd.sock"})
func ExampleClient_RequeueHold() {
	server := slurmresttest.Start(exampleTB{}, slurmresttest.Options{Release: "26.05.3"})
	id := server.AddJob(slurmrest.Job{Name: "train", Batch: true, Requeueable: true})
	server.StartJob(id, "n1", "n2")

	ctx := context.Background()
	client := server.Client(exampleTB{})
	done, err := client.RequeueHold(ctx, slurmrest.JobID(id))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("requeued by:", done.Route)

	server.Settle(id) // the job's epilog has ended
	job, err := client.Job(ctx, slurmrest.JobID(id))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Name, job.State.Base, "held:", job.Held)

	if err := client.Release(ctx, slurmrest.JobID(id), time.Time{}); err != nil {
		log.Fatal(err)
	}
	job, err = client.Job(ctx, slurmrest.JobID(id))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Name, job.State.Base, "held:", job.Held)
	// Output:
	// requeued by: rest
	// train PENDING held: true
	// train PENDING held: false
}

func ExampleClient_EachJob() {
	server := slurmresttest.Start(exampleTB{}, slurmresttest.Options{Release: "24.11.5"})
	server.AddJob(slurmrest.Job{Name: "prepare", Batch: true})
	server.AddJob(slurmrest.Job{Name: "train", Batch: true})

	info, err := server.Client(exampleTB{}).EachJob(context.Background(), time.Time{}, func(j *slurmrest.Job) error {
		fmt.Println(j.Name, j.State.Base)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("for the next list:", !info.Next.IsZero())
	// Output:
	// prepare PENDING
	// train PENDING
	// for the next list: true
}

func ExampleParseRef() {
	for _, text := range []string{"12", "12_3", "12+1", "twelve"} {
		ref, err := slurmrest.ParseRef(text)
		fmt.Println(ref, ref.IsTask(), ref.IsComponent(), err != nil)
	}
	// Output:
	// 12 false false false
	// 12_3 true false false
	// 12+1 false true false
	// 0 false false true
}

func ExampleHosts() {
	hosts, err := slurmrest.Hosts("n[1-3,7],login")
	fmt.Println(hosts, err)
	// Output: [n1 n2 n3 n7 login] <nil>
}
