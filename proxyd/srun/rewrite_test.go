// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestRewriteArguments(t *testing.T) {
	files := map[string]string{"/h": "n1\nn2*2 # twice\n", "list": "n[1-2]\n", "/new": "n8\n"}
	read := func(path string) ([]byte, error) {
		if content, ok := files[path]; ok {
			return []byte(content), nil
		}
		return nil, fs.ErrNotExist
	}
	moved := map[string]string{"n1": "n8", "n2": "n9"}
	for _, tc := range []struct {
		name  string
		line  string
		nodes map[string]string
		tasks string
		over  bool
		fewer bool
		want  string
		files string
	}{
		{name: "the first run", line: "-w n1 -l a -w n1", want: "-w n1 -l a -w n1"},
		{name: "moved", line: "-w n1 -l a -w n1", nodes: moved, want: "--nodelist=n8 -l a -w n1"},
		{name: "a cluster of letters", line: "-lwn1 a", nodes: moved, want: "--label --nodelist=n8 a"},
		{name: "excluded", line: "-x n[1-3] a", nodes: moved, want: "--exclude=n8,n9,n3 a"},
		{name: "not of the job", line: "-x m1 --nodel=m2 a", nodes: moved, want: "-x m1 --nodel=m2 a"},
		{name: "two become one", line: "-w n1,n2 a", nodes: map[string]string{"n1": "n5", "n2": "n5"}, want: "--nodelist=n5 a"},
		{name: "arbitrary keeps both", line: "-m arbitrary -w n1,n2 a", nodes: map[string]string{"n1": "n5", "n2": "n5"}, want: "-m arbitrary --nodelist=n5,n5 a"},
		{name: "a file", line: "-w /h a", nodes: moved, want: "--nodelist=/proc/self/fd/100 a", files: "n8\nn9*2\n"},
		{name: "a file of its own option", line: "-F list a", nodes: moved, want: "--nodefile=/proc/self/fd/100 a", files: "n8,n9\n"},
		{name: "a file of new names", line: "-w /new a", nodes: moved, want: "-w /new a"},
		{name: "a file that is not there", line: "-w /x a", nodes: moved, want: "-w /x a"},
		{name: "laid out", line: "-N2 -n4 --ntasks-per-node=2 -r1 -m cyclic -c2 --exact -l a -n5", tasks: "n9 n8 n9 n9",
			want: "--nodelist=/proc/self/fd/100 --distribution=arbitrary --ntasks=4 -c2 --exact -l a -n5", files: "n9\nn8\nn9\nn9\n"},
		{name: "laid out and moved", line: "-w n1,n2 -x /h -F list a", nodes: moved, tasks: "n9",
			want: "--nodelist=/proc/self/fd/100 --distribution=arbitrary --ntasks=1 a", files: "n9\n"},
		{name: "too many", line: "--overlap a", tasks: "n9 n9", over: true,
			want: "--nodelist=/proc/self/fd/100 --distribution=arbitrary --ntasks=2 --overcommit --overlap a", files: "n9\nn9\n"},
		{name: "other names", line: "--tasks-per-node=2 --nodeli=n1 --contig --switches=1 a", tasks: "n9",
			want: "--nodelist=/proc/self/fd/100 --distribution=arbitrary --ntasks=1 a", files: "n9\n"},
		{name: "a plugin's", line: "--theirs=1 -w n1 a", nodes: moved, want: "--theirs=1 --nodelist=n8 a"},
		{name: "a plugin's with a word", line: "--image x -w n1 a", nodes: moved, want: "--image x --nodelist=n8 a"},
		{name: "exported", line: "--export=NONE a", want: "--export=SINGULARITY_SLURM_STEP,NONE a"},
		{name: "components", line: "-w n1 a : -lx n2 b c", nodes: moved, want: "--nodelist=n8 a : --label --exclude=n9 b c"},
		{name: "components after --", line: "-w n1 -- a : -w n2 b", nodes: moved, want: "--nodelist=n8 -- a : --nodelist=n9 b"},
		{name: "help", line: "--help -w n1", nodes: moved, tasks: "n9", want: "--help -w n1"},
		{name: "version", line: "-V", tasks: "n9", want: "-V"},
		{name: "a mistake", line: "-n a -w", nodes: moved, want: "-n a -w"},
		{name: "nothing", line: "", nodes: moved, want: ""},
		{name: "unbuffered", line: "-lun4 --unbuffered a -u", want: "--label --ntasks=4 a -u"},
		{name: "unbuffered in a component", line: "-n1 a : --unbuf -n2 b", want: "-n1 a : -n2 b"},
		{name: "as many GPUs", line: "--gpus-per-task=1 -G2 a", want: "--gpus-per-task=1 -G2 a"},
		{name: "fewer GPUs", line: "--gpus-per-task=1 -G2 --gpus-per-node 2 --gpu-bind=single:1 -n2 a", fewer: true, want: "-n2 a"},
		{name: "fewer GPUs among other resources", line: "--gres=gpu:a100:2,license:1 --tres-per-task=cpu=2,gres/gpu=1 a", fewer: true, want: "--gres=license:1 --tres-per-task=cpu=2 a"},
		{name: "fewer GPUs and nothing else", line: "--gres=gpu -l --tres-per-task=gres/gpu:1 a", fewer: true, want: "-l a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Call{Args: append([]string{"/usr/bin/srun"}, strings.Fields(tc.line)...)}
			r := RewriteParameters{Key: "s1", Release: "26.05", Help: []byte("Options provided by plugins:\n      --image=NAME  x\n")}
			r.Nodes, r.Tasks, r.Overcommit, r.FewerGPUs = tc.nodes, strings.Fields(tc.tasks), tc.over, tc.fewer
			cmd, err := c.Rewrite(r, read)
			if err != nil {
				t.Fatal(err)
			}
			var content string
			for _, b := range cmd.Files {
				content += string(b)
			}
			if got := strings.Join(cmd.Args[1:], " "); got != tc.want || content != tc.files || cmd.Args[0] != "/usr/bin/srun" {
				t.Errorf("got %q, files %q, want %q, %q", got, content, tc.want, tc.files)
			}
		})
	}
}

func TestRewriteMPI(t *testing.T) {
	const offer = PMIVariable + "=10.88.1.1:4000:0"
	const offerX = PMIxVariable + "=10.88.1.1:4000:0"
	kept, keptX := offer+" "+KeyVariable+"=s1", offerX+" "+KeyVariable+"=s1"
	for _, tc := range []struct {
		name, line, env, byDefault string
		want, wantEnv              string
		err                        error
	}{
		{name: "asked for", line: "-n2 --mpi=pmi2 a", env: offer, want: "--mpi=none -n2 a", wantEnv: kept},
		{name: "as two words, and exported", line: "--mp pmi2 --export=NONE a", env: offer, want: "--mpi=none --export=" + KeyVariable + "," + PMIVariable + ",NONE a", wantEnv: kept},
		{name: "of the program", line: "a --mpi=pmi2", env: offer, want: "a --mpi=pmi2", wantEnv: KeyVariable + "=s1"},
		{name: "the last counts", line: "--mpi=pmi2 --mpi=none a", env: offer, want: "--mpi=pmi2 --mpi=none a", wantEnv: KeyVariable + "=s1"},
		{name: "by the variable", line: "a", env: offer + " SLURM_MPI_TYPE=pmi2 SLURM_EXPORT_ENV=A", want: "--mpi=none a",
			wantEnv: offer + " SLURM_EXPORT_ENV=" + KeyVariable + "," + PMIVariable + ",A " + KeyVariable + "=s1"},
		{name: "not by the variable", line: "--mpi=none a", env: offer + " SLURM_MPI_TYPE=pmi2", want: "--mpi=none a", wantEnv: "SLURM_MPI_TYPE=pmi2 " + KeyVariable + "=s1"},
		{name: "by default", line: "a", env: offer, byDefault: "pmi2", want: "--mpi=none a", wantEnv: kept},
		{name: "not by default", line: "--mpi=none a", env: offer, byDefault: "pmi2", want: "--mpi=none a", wantEnv: KeyVariable + "=s1"},
		{name: "unbuffered by the variable", line: "a", env: "SLURM_UNBUFFEREDIO=1 A=1", want: "a", wantEnv: "A=1 " + KeyVariable + "=s1"},
		{name: "an older sing-srun", line: "--mpi=pmi2 a", want: "--mpi=pmi2 a", wantEnv: KeyVariable + "=s1"},
		{name: "a list", line: "--mpi=list", env: offer, want: "--mpi=list", wantEnv: KeyVariable + "=s1"},
		{name: "PMIx", line: "--mpi=pmix_v5 -n2 a", env: offer + " " + offerX, want: "--mpi=none -n2 a", wantEnv: keptX},
		{name: "PMIx, exported", line: "--export=NONE --mpi=pmix a", env: offerX, want: "--mpi=none --export=" + KeyVariable + "," + PMIxVariable + ",NONE a", wantEnv: keptX},
		{name: "PMI-2 where PMIx is the default", line: "--mpi=pmi2 a", env: offer + " " + offerX, byDefault: "pmix", want: "--mpi=none a", wantEnv: kept},
		{name: "PMIx by default, served", line: "a", env: offerX, byDefault: "pmix", want: "--mpi=none a", wantEnv: keptX},
		{name: "not PMIx by default", line: "--mpi=none a", env: offerX, byDefault: "pmix", want: "--mpi=none a", wantEnv: KeyVariable + "=s1"},
		{name: "PMIx, not served", line: "--mpi=pmix_v5 a", env: offer, err: ErrPMIx},
		{name: "PMIx in a container", line: "--mpi=pmix --container=/b a", env: offerX, err: ErrContainer},
		{name: "PMIx in a container of pyxis", line: "--mpi=pmix a", env: offerX + " PYXIS_CONTAINER_IMAGE=i", err: ErrContainer},
		{name: "PMIx by default, in a container", line: "--container=/b a", env: offerX, byDefault: "pmix", want: "--container=/b a", wantEnv: KeyVariable + "=s1"},
		{name: "PMIx by the variable", line: "a", env: "SLURM_MPI_TYPE=pmix", err: ErrPMIx},
		{name: "PMIx by default", line: "a", byDefault: "pmix", want: "a", wantEnv: KeyVariable + "=s1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Call{Args: append([]string{"srun"}, strings.Fields(tc.line)...), Env: strings.Fields(tc.env)}
			cmd, err := c.Rewrite(RewriteParameters{Key: "s1", MPIDefault: tc.byDefault}, nil)
			if !errors.Is(err, tc.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if got := strings.Join(cmd.Args[1:], " "); got != tc.want {
				t.Errorf("arguments %q, want %q", got, tc.want)
			}
			if got := strings.Join(cmd.Env, " "); got != tc.wantEnv {
				t.Errorf("environment %q, want %q", got, tc.wantEnv)
			}
		})
	}
}

func TestRewriteTerminal(t *testing.T) {
	const offer = TerminalVariable + "=10.88.1.1:4000:0"
	const none = TerminalVariable + "=none"
	const on = forwardedOptions + "singularity_interval=10m "
	kept, key := offer+" "+KeyVariable+"=s1", KeyVariable+"=s1"
	for _, tc := range []struct {
		name, line, env, tasks string
		want, wantEnv          string
		reads                  bool
		notice                 string
		err                    error
	}{
		{name: "asked for", line: "--pty -n1 a", env: offer, want: "--input=none -n1 a", wantEnv: kept},
		{name: "shortened", line: "--pt -u a", env: offer, want: "--input=none a", wantEnv: kept},
		{name: "with a descriptor", line: "--pty=3 a", env: offer, want: "--input=none a", wantEnv: kept},
		{name: "exported", line: "--pty --export=NONE a", env: offer,
			want: "--input=none --export=" + KeyVariable + "," + TerminalVariable + ",NONE a", wantEnv: kept},
		{name: "with PMI", line: "--pty --mpi=pmi2 a", env: PMIVariable + "=p " + offer, want: "--input=none --mpi=none a",
			wantEnv: PMIVariable + "=p " + kept},
		{name: "with PMI, exported", line: "--pty --mpi=pmi2 a", env: PMIVariable + "=p " + offer + " SLURM_EXPORT_ENV=A", want: "--input=none --mpi=none a",
			wantEnv: PMIVariable + "=p " + offer + " SLURM_EXPORT_ENV=" + KeyVariable + "," + PMIVariable + "," + TerminalVariable + ",A " + key},
		{name: "of the program", line: "a --pty", env: offer, want: "a --pty", wantEnv: key, reads: true},
		{name: "of the program, without a terminal", line: "a --pty", env: none, want: "a --pty", wantEnv: key, reads: true},
		{name: "without a terminal", line: "--pty -l a", env: none, want: "-l a", wantEnv: key, reads: true, notice: noTerminalNotice},
		{name: "without a terminal, and restored", line: "--pty a", env: none, tasks: "n1",
			want: "--nodelist=/proc/self/fd/100 --distribution=arbitrary --ntasks=1 a", wantEnv: key, reads: true},
		{name: "restored", line: "--pty -n2 a", env: offer, tasks: "n1",
			want: "--nodelist=/proc/self/fd/100 --distribution=arbitrary --ntasks=1 --input=none a", wantEnv: kept},
		{name: "an older sing-srun", line: "--pty a", want: "--pty a", wantEnv: key, reads: true},
		{name: "other files", line: "--pty -o f a", env: offer, err: ErrTerminal},
		{name: "not protected", line: "--pty --singularity=off a", env: offer, want: "--pty --singularity=off a", wantEnv: key, reads: true},
		{name: "protected again", line: "--singularity=off --pty --singularity a", env: offer, want: "--input=none --singularity=off --singularity a", wantEnv: kept},
		{name: "help", line: "--pty --help", env: offer, want: "--pty --help", wantEnv: key, reads: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Call{Args: append([]string{"srun"}, strings.Fields(tc.line)...), Env: strings.Fields(on + tc.env)}
			cmd, err := c.Rewrite(RewriteParameters{Key: "s1", Layout: Layout{Tasks: strings.Fields(tc.tasks)}}, nil)
			if !errors.Is(err, tc.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if got := strings.Join(cmd.Args[1:], " "); got != tc.want {
				t.Errorf("arguments %q, want %q", got, tc.want)
			}
			if got := strings.Join(cmd.Env, " "); got != on+tc.wantEnv {
				t.Errorf("environment %q, want %q", got, on+tc.wantEnv)
			}
			if cmd.NoInput == tc.reads || cmd.Notice != tc.notice {
				t.Errorf("NoInput is %v, the notice is %q, want %q", cmd.NoInput, cmd.Notice, tc.notice)
			}
		})
	}
}

// TestRewriteUnprotected: a step of which the user has taken the variables of the plugin's options has Slurm's terminal.
func TestRewriteUnprotected(t *testing.T) {
	for _, env := range []string{"", forwardedOptions + "singularity=off"} {
		c := &Call{Args: []string{"srun", "--pty", "a"}, Env: append(strings.Fields(env), TerminalVariable+"=10.88.1.1:4000:0")}
		cmd, err := c.Rewrite(RewriteParameters{Key: "s1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cmd.Args, " "); got != "srun --pty a" || cmd.NoInput || strings.Contains(strings.Join(cmd.Env, " "), TerminalVariable) {
			t.Errorf("with %q: %q, NoInput %v, environment %q", env, got, cmd.NoInput, cmd.Env)
		}
	}
}

func TestRewriteHet(t *testing.T) {
	c := &Call{Args: []string{"srun", "a", ":", "b"}}
	if _, err := c.Rewrite(RewriteParameters{Layout: Layout{Tasks: []string{"n1"}}}, nil); !errors.Is(err, ErrHet) || !strings.Contains(err.Error(), "start its programs with srun --multi-prog") {
		t.Error(err)
	}
}

func TestRewriteEnvironment(t *testing.T) {
	was := map[string]string{"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
		"SLURMD_NODENAME": "n1", "SLURM_SUBMIT_HOST": "login", "SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_NTASKS": "4", "PATH": "/a"}
	now := map[string]string{"SLURM_JOB_NODELIST": "n[8-9]", "SLURM_JOB_NUM_NODES": "2", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.8",
		"SLURMD_NODENAME": "n8", "SLURM_SUBMIT_HOST": "elsewhere", "CUDA_VISIBLE_DEVICES": "2", "SLURM_RESTART_COUNT": "1", "SLURM_NTASKS": "4", "PATH": "/b", "NEW": "1"}
	nodes := map[string]string{"n1": "n8", "n2": "n9"}
	for _, tc := range []struct {
		name, env string
		now       map[string]string
		tasks     string
		fewer     bool
		want      string
	}{
		{name: "the first run", env: "A=b SLURM_JOB_NODELIST=n[1-2] PATH=/a", want: "A=b SLURM_JOB_NODELIST=n[1-2] PATH=/a SINGULARITY_SLURM_STEP=s1"},
		{name: "of the run", env: "SLURM_JOB_NODELIST=n[1-2] SLURMD_NODENAME=n1 SLURM_LAUNCH_NODE_IPADDR=10.0.0.1 CUDA_VISIBLE_DEVICES=0,1", now: now,
			want: "SLURM_JOB_NODELIST=n[8-9] SLURMD_NODENAME=n8 SLURM_LAUNCH_NODE_IPADDR=10.0.0.8 CUDA_VISIBLE_DEVICES=2 SLURM_RESTART_COUNT=1 SINGULARITY_SLURM_STEP=s1"},
		{name: "not of the run", env: "PATH=/a SLURM_SUBMIT_HOST=login", now: now, want: "PATH=/a SLURM_SUBMIT_HOST=login SLURM_RESTART_COUNT=1 SINGULARITY_SLURM_STEP=s1"},
		{name: "gone in this run", env: "SLURM_JOB_GPUS=0,1", now: now, want: "SLURM_RESTART_COUNT=1 SINGULARITY_SLURM_STEP=s1"},
		{name: "changed by the script", env: "SLURM_NTASKS=2 SLURM_JOB_NODELIST=n2 SLURM_MINE=n1 SLURM_JOB_GPUS=1", now: now,
			want: "SLURM_NTASKS=2 SLURM_JOB_NODELIST=n9 SLURM_MINE=n1 SLURM_JOB_GPUS=1 SLURM_RESTART_COUNT=1 SINGULARITY_SLURM_STEP=s1"},
		{name: "a file by the script", env: "SLURM_HOSTFILE=/h", now: now, want: "SLURM_HOSTFILE=/proc/self/fd/100 SLURM_RESTART_COUNT=1 SINGULARITY_SLURM_STEP=s1"},
		{name: "twice", env: "A=1 A=2 SLURMD_NODENAME=n1 SLURMD_NODENAME=x", now: now, want: "A=1 SLURMD_NODENAME=n8 SLURM_RESTART_COUNT=1 SINGULARITY_SLURM_STEP=s1"},
		{name: "the key of another", env: "SINGULARITY_SLURM_STEP=s0", want: "SINGULARITY_SLURM_STEP=s1"},
		{name: "exported", env: "SLURM_EXPORT_ENV=NONE SRUN_EXPORT_ENV=A", want: "SLURM_EXPORT_ENV=SINGULARITY_SLURM_STEP,NONE SRUN_EXPORT_ENV=SINGULARITY_SLURM_STEP,A SINGULARITY_SLURM_STEP=s1"},
		{name: "laid out", env: "SLURM_NTASKS_PER_NODE=2 SLURM_HOSTFILE=/h SLURM_CPUS_PER_TASK=2", tasks: "n8",
			want: "SLURM_CPUS_PER_TASK=2 SINGULARITY_SLURM_STEP=s1"},
		{name: "fewer GPUs", env: "SLURM_GPUS_PER_NODE=2 SLURM_TRES_PER_TASK=cpu=1,gres/gpu=1 SLURM_GRES=gpu:2 SLURM_CPUS_PER_TASK=2", fewer: true,
			want: "SLURM_TRES_PER_TASK=cpu=1 SLURM_CPUS_PER_TASK=2 SINGULARITY_SLURM_STEP=s1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := RewriteParameters{Key: "s1", Layout: Layout{Nodes: nodes, Tasks: strings.Fields(tc.tasks), FewerGPUs: tc.fewer}, Job: tc.now}
			if tc.now != nil {
				r.Was = was
			} else {
				r.Nodes = nil
			}
			c := &Call{Args: []string{"srun", "a"}, Env: strings.Fields(tc.env)}
			cmd, err := c.Rewrite(r, func(string) ([]byte, error) { return []byte("n1\n"), nil })
			if got := strings.Join(cmd.Env, " "); err != nil || got != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

// TestRewriteNothing: a call without names to translate stays the same.
func TestRewriteNothing(t *testing.T) {
	c := &Call{Args: strings.Fields("srun -l -N2 --exp=ALL -wn1 sh -c x"), Env: []string{"A=b", "SLURM_JOB_NODELIST=n1"}}
	cmd, err := c.Rewrite(RewriteParameters{}, nil)
	if err != nil || strings.Join(cmd.Args, " ") != strings.Join(c.Args, " ") || strings.Join(cmd.Env, " ") != strings.Join(c.Env, " ") || len(cmd.Files) > 0 {
		t.Errorf("Rewrite = %v with environment %v, %v, want the same call", cmd, cmd.Env, err)
	}
}

func TestParseLimits(t *testing.T) {
	got := parseLimits(`Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max open files            1024                 1048576              files     
Max nice priority         0                    0                    
Max something new         1                    2                    
short
`)
	want := []Limit{{0, ^uint64(0), ^uint64(0)}, {7, 1024, 1048576}, {13, 0, 0}}
	if len(got) != len(want) {
		t.Fatalf("parseLimits = %v, want the three known limits", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}
