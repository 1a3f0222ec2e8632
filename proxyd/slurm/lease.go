// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// leasePrefix begins the names of the jobs that SubmitLease submits.
const leasePrefix = "lease-of-"

// leaseName is the name of the jobs that lend GPUs to a job. preemptd knows them by this name.
func leaseName(job uint32) string { return fmt.Sprintf("%s%d", leasePrefix, job) }

// BorrowerOf returns the job to which a job of this name is to lend its GPUs; 0 if the name is not that of a lease.
// Users choose names, so the name does not prove that the job is a lease.
func BorrowerOf(name string) uint32 {
	number, is := strings.CutPrefix(name, leasePrefix)
	if !is {
		return 0
	}
	id, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(id)
}

// SubmitLease submits, as the user of a running job, a job that lends the running job a GPU of a node. It has the running
// job's account and partition, and the QOS qos; with "" the running job's QOS.
func (s *Slurm) SubmitLease(ctx context.Context, borrower *Job, gid uint32, node, qos string) error {
	out, err := s.squeue.Run(ctx, "--noheader", "--states=all", "--jobs="+borrower.String(), "--Format=Account:|,Partition:|,QOS:|")
	fields := strings.Split(strings.TrimSpace(string(out)), "|") // names that administrators gave
	if err == nil && len(fields) != 4 {
		err = fmt.Errorf("squeue printed %q", out)
	}
	if err != nil {
		return withJob(err, "account of job", borrower.String())
	}
	if qos == "" {
		qos = fields[2]
	}
	args := []string{
		"--parsable", "--uid=" + strconv.FormatUint(uint64(borrower.UID), 10), "--gid=" + strconv.FormatUint(uint64(gid), 10),
		"--export=ALL", // sbatch's environment is nearly empty. Slurm 22.05 does not know NIL, and forwards no plugin's option with it
		"--job-name=" + leaseName(borrower.ID), "--comment=lends its GPU to job " + borrower.String(), "--output=/dev/null", "--chdir=/",
		"--nodes=1", "--ntasks=1", fmt.Sprintf("--cpus-per-task=%d", leaseCPUs), fmt.Sprintf("--mem=%dM", leaseMemory),
		"--gpus-per-node=1", "--nodelist=" + node, "--no-requeue",
		"--partition=" + fields[1], "--singularity-lease=" + strconv.FormatUint(uint64(borrower.ID), 10),
	}
	for name, value := range map[string]string{"--account=": fields[0], "--qos=": qos} {
		if value != "" && value != "(null)" && value != "N/A" {
			args = append(args, name+value)
		}
	}
	_, err = s.sbatch.Run(ctx, append(args, "--wrap=exec sleep infinity")...)
	return withJob(err, "submit a lease of job", borrower.String())
}

// WaitingLeases returns the leases of a job that SubmitLease has submitted for a node and that have not started.
func (s *Slurm) WaitingLeases(ctx context.Context, job, uid uint32, node string) ([]*Job, error) {
	out, err := s.squeue.Run(ctx, "--noheader", "--states=PENDING,CONFIGURING", "--user="+strconv.FormatUint(uint64(uid), 10),
		"--name="+leaseName(job), "--Format=ReqNodes:|,"+columns)
	if err != nil {
		return nil, fmt.Errorf("leases of job %d: %w", job, err)
	}
	var all []*Job
	for line := range strings.Lines(strings.TrimSpace(string(out))) {
		on, line, _ := strings.Cut(line, "|")
		if strings.TrimSpace(on) != node {
			continue
		}
		j, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("leases of job %d: %w", job, err)
		}
		all = append(all, j)
	}
	return all, nil
}
