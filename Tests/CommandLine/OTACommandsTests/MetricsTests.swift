import DescriptorIO
import Glibc
import OTACommands
import OTAFleet
import OTAFleetCommands
import OTAGateway
import OTAStore
import OTATestSupport
import Testing

/// The Prometheus text of gateways and controllers. The parser is that of the Python client of Prometheus.
@Suite("Metrics of a fleet") struct MetricsTests {
    /// Parses a metrics file. Returns each sample as `name{label=value,…}`, with the labels in the order of their names.
    private func samples(_ sandbox: Sandbox, _ name: String) async throws -> [String: Double] {
        let script = """
            import json, sys
            from prometheus_client.parser import text_fd_to_metric_families
            samples, names = {}, []
            for family in text_fd_to_metric_families(open(sys.argv[1], newline="\\n")):
                assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
                names.append(family.name)
                for sample in family.samples:
                    labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
                    key = sample.name + ("{" + labels + "}" if labels else "")
                    assert key not in samples, key
                    samples[key] = sample.value
            assert len(names) == len(set(names)), names
            print(json.dumps(samples))
            """
        let read = try await Command.run(PythonEnvironment.python, ["-c", script, sandbox.path(name)])
        let text = String(decoding: try sandbox.read(name), as: UTF8.self)
        #expect(read.succeeded, "\(read.errorText)\(text)")
        guard case .object(let members) = try JSONValue(parsing: read.outputText) else { return [:] }
        return members.compactMapValues(\.number)
    }

    @Test("a gateway that is a controller writes the pushes, the bytes, the store and the rollout")
    func gateway() async throws {
        let fleet = try await Fleet(devices: 3, pace: "virtual")
        try await fleet.create("spring")
        let waited = try await fleet.withGateway("--metrics-file", "m.prom") {
            let first = try await samples(fleet.sandbox, "m.prom")
            #expect(first["otaflash_pushes_total{result=failed}"] == 0, "the file exists from the start")
            return try await fleet.status("spring", "--wait")
        }
        #expect(waited.exit == 0, "\(waited.err)")
        let all = try await samples(fleet.sandbox, "m.prom")
        let results = ["updated", "retried", "refused", "failed"].map { "otaflash_pushes_total{result=\($0)}" }
        #expect(results.map { all[$0] } == [3, 0, 0, 0], "the file is written at the end, too: \(all)")
        let image = try fleet.sandbox.read("fw.bin").count
        #expect(all["otaflash_transfer_bytes_total"] == Double(3 * image), "\(all)")
        #expect(all["otaflash_leases_lost_total"] == 0 && all["otaflash_devices_heard"] == 3)
        #expect(all["otaflash_stale_records_total"] != nil)
        #expect(all["otaflash_rollout_devices{rollout=spring,state=done}"] == 3, "\(all)")
        #expect(all["otaflash_rollout_devices{rollout=spring,state=waiting}"] == 0)
        for operation in ["read", "list", "write", "object", "event"] {
            let count = try #require(all["otaflash_store_seconds_count{operation=\(operation)}"])
            let sum = try #require(all["otaflash_store_seconds_sum{operation=\(operation)}"])
            #expect(count >= 1 && sum > 0 && sum < 60, "\(operation): \(count), \(sum) s")
            #expect(all["otaflash_store_seconds_bucket{le=+Inf,operation=\(operation)}"] == count)
        }
        #expect(all["otaflash_store_seconds_count{operation=object}"] == 1, "one bundle is read once")
        var status = stat()
        #expect(stat(fleet.sandbox.path("m.prom"), &status) == 0 && status.st_mode & 0o444 == 0o444)
    }

    @Test("a controller without a gateway writes its rollouts, and no metrics of pushes")
    func controller() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring", "--controller", "controller.pub.pem")
        let words = ["fleet", "run", "--key", "controller.pem", "--operators", "ops.pub.pem"]
        let file = fleet.sandbox.path("c.prom")
        let run = try await fleet.sandbox.shell(
            """
            "$0" "$@" 2> controller.log & controller=$!
            for attempt in $(seq 600); do grep -q "spring: running, stage 1" controller.log && break; sleep 0.1; done
            kill -TERM $controller; wait $controller
            """, arguments: words + ["--metrics-file", file])
        #expect(run.exit == 0, "\(run.err)")
        #expect(
            String(decoding: try fleet.sandbox.read("controller.log"), as: UTF8.self).contains("this controller leads"))
        let all = try await samples(fleet.sandbox, "c.prom")
        #expect(all["otaflash_rollout_devices{rollout=spring,state=done}"] == 0, "\(all)")
        #expect(all["otaflash_store_seconds_count{operation=write}"] ?? 0 >= 2, "the leader and the progress")
        #expect(!all.keys.contains { $0.hasPrefix("otaflash_pushes") || $0 == "otaflash_devices_heard" })
    }

    @Test(
        "a file that cannot be written, or that node_exporter would not read, is an error before the start",
        arguments: [("absent/m.prom", Int32(73), "cannot write the metrics"), ("metrics.txt", 64, "suffix .prom")])
    func refused(file: String, exit: Int32, text: String) async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.run("keygen", "ops").exit == 0)
        for words in [
            ["gateway", "run", "--name", "desk", "--device", "sim:x", "--trust", "ops.pub.pem"], ["fleet", "run"],
        ] {
            let run = try await sandbox.run(words + ["--operators", "ops.pub.pem", "--metrics-file", file])
            #expect(run.exit == exit && run.err.contains(text) && run.err.contains("hint: "), "\(run.err)")
        }
    }

    @Test("a write that fails later is reported, and the next writes succeed when the cause is gone")
    func laterFailure() async throws {
        let sandbox = try Sandbox()
        try sandbox.makeFolder("m")
        let (writes, failures) = (Guarded(0), Guarded<[String]>([]))
        let file = try MetricsFile(sandbox.path("m/m.prom"), interval: .milliseconds(10)) {
            writes.with { $0 += 1 }
            return "a \(writes.with { $0 })\n"
        }
        #expect(try String(decoding: sandbox.read("m/m.prom"), as: UTF8.self) == "a 1\n")
        let result = try await file.write {
            _ = try await sandbox.shell("mv m away")
            while failures.with(\.isEmpty) { try await Task.sleep(for: .milliseconds(5)) }
            _ = try await sandbox.shell("mv away m")
            let count = writes.with { $0 }
            while writes.with({ $0 }) < count + 3 { try await Task.sleep(for: .milliseconds(5)) }
            return 7
        } failed: { failure in
            failures.with { $0.append(failure.code) }
        }
        #expect(result == 7 && Set(failures.with { $0 }) == ["cannot-create"])
        let last = try String(decoding: sandbox.read("m/m.prom"), as: UTF8.self)
        #expect(last == "a \(writes.with { $0 })\n", "the last write is after the end of the body")
        #expect(try await sandbox.shell("ls -A m").out == "m.prom\n", "no temporary file remains")
    }

    @Test("a label value with a quote, a backslash and a line feed is parsed as the same value")
    func escapes() async throws {
        let sandbox = try Sandbox()
        let value = "a\"b\\c\nd\\ne\r\nü{},="
        var text = PrometheusText()
        text.metric("odd_total", .counter, "Help \\ with\na line feed and \"quotes\".")
        text.sample(3, [("value", value)])
        try sandbox.write("m.prom", Array(text.text.utf8))
        #expect(try await samples(sandbox, "m.prom") == ["odd_total{value=\(value)}": 3])
    }

    @Test("a bucket of a histogram contains the durations of the lower buckets")
    func buckets() async throws {
        let sandbox = try Sandbox()
        var histogram = Histogram()
        for milliseconds in [1, 2, 10, 11, 700, 6000] { histogram.add(.milliseconds(milliseconds)) }
        var text = PrometheusText()
        text.metric("h_seconds", .histogram, "Durations.")
        text.histogram(histogram)
        try sandbox.write("m.prom", Array(text.text.utf8))
        let all = try await samples(sandbox, "m.prom")
        let counts = ["0.001", "0.01", "0.1", "1.0", "5.0", "+Inf"].map { all["h_seconds_bucket{le=\($0)}"] }
        #expect(counts == [1, 3, 4, 5, 5, 6] && all["h_seconds_count"] == 6)
        #expect(abs((all["h_seconds_sum"] ?? 0) - 6.724) < 1e-9)
    }

    @Test("lost leases, refused writes, and the rollouts of a controller that does not lead any more")
    func counts() throws {
        var metrics = FleetMetrics(isGateway: true, isController: true)
        metrics.ended(.updated, stored: false)
        metrics.ended(.retry(.leaseLost), stored: true)
        metrics.ended(.retry(.linkLost), stored: true)
        metrics.wrote(.conflict)
        metrics.wrote(.unknown)
        let device = try #require(DeviceID("sim-a"))
        for _ in 1...2 { metrics.saw(.heard(device, product: nil, version: nil, rssi: -50)) }
        #expect(metrics.text.contains("\notaflash_leases_lost_total 2\n"))
        #expect(metrics.text.contains("\notaflash_stale_records_total 1\n"))
        #expect(metrics.text.contains("\notaflash_devices_heard 1\n"))
        metrics.saw(.lost(device))
        #expect(metrics.text.contains("\notaflash_devices_heard 0\n"))
        var counts = RolloutProgress.Counts()
        (counts.done, counts.running, counts.failed, counts.refused, counts.waiting) = (1, 2, 3, 4, 5)
        var others = RolloutProgress.Counts()
        (others.done, others.refused) = (6, 7)
        metrics.note(.counted(try #require(RolloutName("spring")), counts, notEnrolled: others))
        for (state, count) in [("done", 6), ("running", 0), ("failed", 0), ("refused", 7), ("waiting", 0)] {
            let line = "\notaflash_rollout_devices_not_enrolled{rollout=\"spring\",state=\"\(state)\"} \(count)\n"
            #expect(metrics.text.contains(line), "\(metrics.text)")
        }
        for (state, count) in [("done", 1), ("running", 2), ("failed", 3), ("refused", 4), ("waiting", 5)] {
            let line = "\notaflash_rollout_devices{rollout=\"spring\",state=\"\(state)\"} \(count)\n"
            #expect(metrics.text.contains(line), "\(metrics.text)")
        }
        metrics.note(.leads(false))
        #expect(!metrics.text.contains("rollout=\"spring\""))
    }
}
