// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/contrib/criu"
)

// recipeVersion is raised when a tree must be built anew although the parts that the hash covers
// have not changed.
const recipeVersion = 1

// hashLen is the number of hex digits of the recipe's hash in a tree's name.
const hashLen = 12

//go:embed recipe/essential.sh
var essentialHook string

//go:embed recipe/corpus.sh
var corpusHook string

//go:embed recipe/customize.sh
var customizeHook string

//go:embed recipe/criu.sh
var criuHook string

// packages are installed in every tree, on top of Debian's essential packages.
var packages = []string{
	"slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client",
	"slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin", "libslurm-dev",
	"munge", "mariadb-server",
	"python3", "curl", "iproute2", "iputils-ping", "nftables",
	"procps", "psmisc", "hostname", "mount", "passwd", "util-linux",
}

// criuPackages are the packages on which the CRIU that is compiled for a suite depends.
var criuPackages = []string{"libprotobuf-c1", "libnl-3-200", "libnet1", "libbsd0", "libnftables1"}

// torchPackages are the packages that Options.Torch adds.
var torchPackages = []string{"python3-torch", "python3-numpy"}

// corpusPackages are the packages that Options.Corpus adds: the programs that
// tests/corpus runs, as Debian packages them.
var corpusPackages = []string{
	// compilers and interpreters
	"gcc", "make", "libc6-dev", "default-jre-headless", "nodejs", "ruby", "lua5.4", "tcl", "gawk",
	"php-cli", "erlang-base", "gforth", "r-base-core",
	// servers
	"redis-server", "postgresql", "nginx-light", "memcached", "python3-redis", "python3-psycopg2", "python3-boto3", "python3-moto", "python3-flask-cors",
	// message passing
	"mpich", "libmpich-dev", "openmpi-bin", "python3-mpi4py", "hpcc",
	// libraries with which Python programs start processes
	"python3-tqdm", "python3-joblib", "python3-dask", "python3-distributed",
	// data analysis
	"python3-scipy", "python3-pandas", "python3-sklearn", "python3-h5py", "octave",
	// chemistry, biology, circuits, optimisation
	"gromacs", "lammps", "nwchem-openmpi", "hmmer", "ncbi-blast+", "bowtie2", "bwa", "bcftools", "mafft", "raxml",
	"ngspice", "glpk-utils", "openfoam",
	// notebooks, workflows, films
	"jupyter-nbconvert", "python3-ipykernel", "snakemake", "ffmpeg",
	// clients of servers, and programs for terminals
	"mosquitto", "mosquitto-clients", "wrk", "zsh", "expect", "tmux", "less", "vim-tiny", //nolint:misspell // the name of the broker
	// containers
	"bubblewrap", "crun",
	// tools
	"sqlite3", "sox", "libsox-fmt-base", "flac", "imagemagick", "gnuplot-nox", "zstd", "xz-utils", "rsync", "socat",
	"stress-ng", "git", "parallel", "bc", "busybox-static", "restic", "gojq", "pari-gp", "ripgrep", "cadical",
	"minimap2", "samtools",
	// languages
	"golang-go", "cargo", "ocaml", "sbcl", "guile-3.0", "chicken-bin", "libchicken-dev", "nim", "crystal", "elixir",
	"swi-prolog-nox", "gfortran", "ldc", "gnat", "clojure", "luajit", "tcl-thread", "pypy3", "gnucobol3", "rakudo",
	"fp-compiler", "fp-units-rtl", "emacs-nox",
	// shells, and programs that fill a terminal
	"fish", "ksh93u+m", "tcsh", "yash", "elvish", "screen", "nano", "mc",
	// what builds programs, and what simulates circuits
	"g++", "cmake", "ninja-build", "meson", "scons", "autoconf", "automake", "libtool", "iverilog",
	// documents and films
	"texlive-latex-base", "pandoc", "gstreamer1.0-tools", "gstreamer1.0-plugins-base", "gstreamer1.0-plugins-good", "groff",
	"graphviz", "csound", "ghostscript", "python3-sphinx",
	// what keeps data: versions, tables by key
	"python3-lmdb", "python3-plyvel", "rocksdb-tools", "subversion",
	// algebra, logic, statistics, finite elements, quanta, trees of life, maps, climates, skies, circuits, nerves
	"singular-ui", "gap-core", "z3", "jags", "freefem++", "calculix-ccx", "iqtree", "gdal-bin", "nco",
	"netcdf-bin", "python3-astropy", "source-extractor", "python3-neuron",
	// learning, tables and arrays, task queues, workflows, builds
	"python3-onnxruntime", "python3-onnx", "llama.cpp", "python3-gguf", "python3-gensim", "python3-optuna",
	"python3-numba", "python3-pyarrow", "duckdb", "python3-zarr", "python3-xarray", "python3-netcdf4",
	"python3-celery", "cwltool",
	// servers and their clients on a node
	"etcd-server", "etcd-client", "rabbitmq-server", "haproxy", "lighttpd", "apache2", "openssh-server",
	"openssh-client", "python3-grpcio", "slapd", "ldap-utils", "bind9", "bind9-dnsutils", "beanstalkd",
	// libraries on MPI
	"libopenmpi-dev", "libfftw3-dev", "libfftw3-mpi-dev",
}

// dpkgOptions leave out files that no test cluster reads: documentation (copyright
// files stay), translations, and the database's repair tools, each of which is
// 5 MB of statically linked client.
var dpkgOptions = []string{
	"force-unsafe-io",
	"path-exclude=/usr/share/man/*",
	"path-exclude=/usr/share/info/*",
	"path-exclude=/usr/share/doc/*",
	"path-include=/usr/share/doc/*/copyright",
	"path-exclude=/usr/share/locale/*",
	"path-include=/usr/share/locale/locale.alias",
	"path-exclude=/usr/bin/aria_*",
	"path-exclude=/usr/bin/myisam*",
	"path-exclude=/usr/bin/innochecksum",
	"path-exclude=/usr/bin/perror",
	"path-exclude=/usr/bin/mariadb-binlog",
	"path-exclude=/usr/bin/mariadb-conv",
	"path-exclude=/usr/bin/mariadb-import",
	"path-exclude=/usr/bin/mariadb-show",
	"path-exclude=/usr/bin/mariadb-slap",
	"path-exclude=/usr/bin/mariadb-tzinfo-to-sql",
}

// recipe has all settings that decide about a tree's content. The place of packages (mirror, proxy)
// does not change the content, and is no part of a recipe.
type recipe struct {
	suite     Suite
	torch     bool
	corpus    bool
	packages  []string
	dpkg      []string
	essential string // hook scripts
	customize string
	// criu is the script that makes the suite's package of CRIU, and the one that installs it in a
	// tree; "" where the suite's own is installed.
	criu string
	// forCRIU says that the package of CRIU is made, a folder with the package in it, and no tree.
	forCRIU bool
}

func newRecipe(o Options) recipe {
	r := recipe{
		suite:     o.Suite,
		torch:     o.Torch || o.Corpus,
		corpus:    o.Corpus,
		packages:  slices.Clone(packages),
		dpkg:      dpkgOptions,
		essential: essentialHook,
		customize: customizeHook,
	}
	if o.Suite.CompilesCRIU {
		r.packages = append(r.packages, criuPackages...)
		r.criu = criu.Script + criuHook
	} else {
		r.packages = append(r.packages, "criu")
	}
	if r.torch {
		r.packages = append(r.packages, torchPackages...)
	}
	if r.corpus {
		r.packages = append(r.packages, corpusPackages...)
		r.essential += corpusHook
	}
	return r
}

// newCRIURecipe returns the recipe for the package of CRIU that a suite's trees have.
func newCRIURecipe(s Suite) recipe {
	return recipe{suite: s, criu: criu.Script, forCRIU: true}
}

// variantName names the variant of a tree or package, which is cached once per recipe: "forky",
// "forky-torch", "forky-corpus", "criu-trixie".
func (r recipe) variantName() string {
	switch {
	case r.forCRIU:
		return "criu-" + r.suite.Name
	case r.corpus:
		return r.suite.Name + "-corpus"
	case r.torch:
		return r.suite.Name + "-torch"
	}
	return r.suite.Name
}

// recipeHash returns a hash that differs between recipes of a variant.
func (r recipe) recipeHash() string {
	h := sha256.New()
	parts := [][]string{
		{fmt.Sprint(recipeVersion), r.variantName()}, r.packages, r.dpkg, {r.essential, r.customize},
	}
	if r.criu != "" {
		parts = append(parts, []string{r.criu})
	}
	for _, part := range parts {
		fmt.Fprintf(h, "%d %q\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:hashLen]
}

// treeName is the name of the finished tree's folder.
func (r recipe) treeName() string { return r.variantName() + "-" + r.recipeHash() }

// isTreeOf reports whether name is a finished tree of the variant, of any recipe.
// "forky-torch-0123456789ab" is no tree of "forky".
func isTreeOf(variant, name string) bool {
	hash, ok := strings.CutPrefix(name, variant+"-")
	if !ok || len(hash) != hashLen {
		return false
	}
	_, err := hex.DecodeString(hash)
	return err == nil
}

// aptOptions are the recipe's own options; the host's options are added.
func (r recipe) aptOptions() []string {
	o := []string{`APT::Install-Recommends "false"`}
	if r.suite.expired || r.forCRIU { // the source of CRIU is that of an expired suite
		o = append(o, `Acquire::Check-Valid-Until "false"`)
	}
	return o
}
