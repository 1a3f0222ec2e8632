// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package health asks the nodes' proxyds in turn how they are, and remembers their answers.
//
//	schedule.go   which node is asked when: values only
//	poller.go     asks, a bounded number of nodes at a time
//	report.go     the state of each node, and its problem
//
// Each question is a connection and a credential of munge, so questions are spread: a node that answers is asked
// every 30 s on a cluster of up to 500 nodes, and every 60 ms times the number of nodes on a larger cluster. A node
// that does not answer is asked after 10 s, and then after twice as long each time, up to 10 minutes; when Slurm
// finds such a node up again, the node is asked at once.
package health
