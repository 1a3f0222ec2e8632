#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a driver JVM with two executor JVMs over NIO sockets, as Spark has them: a shuffle in stages
# Needs: default-jre-headless
#SBATCH --job-name=jvm-executors --ntasks=1 --output=log
set -eu
echo "compiling"
cat >Stages.java <<'JAVA'
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;

public class Stages {
	static byte[] pack(Object o) throws IOException {
		ByteArrayOutputStream b = new ByteArrayOutputStream();
		try (ObjectOutputStream out = new ObjectOutputStream(b)) { out.writeObject(o); }
		return ByteBuffer.allocate(4 + b.size()).putInt(b.size()).put(b.toByteArray()).array();
	}

	static void executor(int port) throws Exception {
		try (Socket s = new Socket("127.0.0.1", port)) {
			DataInputStream in = new DataInputStream(s.getInputStream());
			OutputStream out = s.getOutputStream();
			for (int size; (size = in.readInt()) > 0; ) {
				int[] part = (int[]) new ObjectInputStream(new ByteArrayInputStream(in.readNBytes(size))).readObject();
				HashMap<Integer, Long> sums = new HashMap<>();
				Path spill = Files.createTempFile("spill", ".tmp");
				try (var w = Files.newBufferedWriter(spill)) { for (int x : part) w.write(x + "\n"); }
				try (FileChannel c = FileChannel.open(spill)) { // read back as shuffled data is
					var map = c.map(FileChannel.MapMode.READ_ONLY, 0, c.size());
					for (String line : java.nio.charset.StandardCharsets.US_ASCII.decode(map).toString().split("\n")) {
						int x = Integer.parseInt(line);
						sums.merge(x % 17, (long) x * x, Long::sum);
					}
				}
				Files.delete(spill);
				Thread.sleep(40);
				out.write(pack(new TreeMap<>(sums)));
			}
		}
	}

	public static void main(String[] args) throws Exception {
		if (args.length > 0) { executor(Integer.parseInt(args[0])); return; }
		ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
		int port = ((InetSocketAddress) server.getLocalAddress()).getPort();
		System.out.println("driver");
		List<Process> executors = new ArrayList<>();
		for (int n = 0; n < 2; n++)
			executors.add(new ProcessBuilder("java", "-Xmx64m", "-XX:+UseSerialGC", "Stages.java", "" + port).inheritIO().start());
		Selector selector = Selector.open();
		List<SocketChannel> peers = new ArrayList<>();
		for (int n = 0; n < 2; n++) {
			SocketChannel c = server.accept();
			c.configureBlocking(false).register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(1 << 16));
			peers.add(c);
		}
		Random random = new Random(9);
		TreeMap<Integer, Long> all = new TreeMap<>();
		for (int stage = 0; stage < 70; stage++) {
			for (SocketChannel c : peers) {
				ByteBuffer b = ByteBuffer.wrap(pack(IntStream.range(0, 800).map(i -> random.nextInt(100000)).toArray()));
				while (b.hasRemaining()) c.write(b);
			}
			for (int got = 0; got < peers.size(); ) {
				selector.select(5000);
				for (SelectionKey k : selector.selectedKeys()) {
					ByteBuffer b = (ByteBuffer) k.attachment();
					((SocketChannel) k.channel()).read(b);
					if (b.position() < 4 || b.position() < 4 + b.getInt(0)) continue;
					@SuppressWarnings("unchecked")
					Map<Integer, Long> sums = (Map<Integer, Long>) new ObjectInputStream(new ByteArrayInputStream(b.array(), 4, b.getInt(0))).readObject();
					sums.forEach((x, y) -> all.merge(x, y, Long::sum));
					b.clear();
					got++;
				}
				selector.selectedKeys().clear();
			}
			if (stage % 14 == 13) System.out.println("stage " + (stage + 1) + " " + all.hashCode());
		}
		for (SocketChannel c : peers) { c.write(ByteBuffer.allocate(4)); c.close(); }
		for (Process p : executors) System.out.println("executor ended with " + p.waitFor());
		System.out.println(all);
	}
}
JAVA
java -Xmx96m -XX:+UseSerialGC Stages.java
