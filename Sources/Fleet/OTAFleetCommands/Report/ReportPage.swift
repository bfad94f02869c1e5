import OTAFirmware
import OTAFleet
import OTAGateway

/// The web page of `fleet report`: a ``FleetSnapshot`` as HTML.
struct ReportPage {
    static let marker = "otaflash fleet report"
    /// The maximum number of devices in the list of failures. A page with many thousand rows would be slow on a phone.
    private static let mostDevices = 500

    let snapshot: FleetSnapshot
    /// The version of otaflash.
    let software: String

    var text: String {
        let time = snapshot.at?.description ?? "unknown (the clock of this machine is not set)"
        return HTML.page(
            title: "Fleet report, \(time)", style: Self.style, marker: Self.marker,
            [
                .element(
                    "header",
                    [
                        .element("h1", "Fleet report"),
                        .element("p", [.text("Time: "), .element("time", time), .text(" · otaflash \(software)")]),
                    ]),
                .element("main", [overview, rollouts, devices, gateways, failures]),
            ])
    }

    private var overview: HTML {
        let states = snapshot.devices.reduce(into: [:]) { $0[$1.state, default: 0] += 1 }
        let tiles =
            [("devices", snapshot.devices.count)] + DeviceRecord.State.allCases.map { ($0.rawValue, states[$0] ?? 0) }
        return .element(
            "ul", attributes: ["class": "tiles"],
            tiles.map { name, count in
                .element("li", attributes: ["class": name], [.element("b", "\(count)"), .text(" \(name)")])
            }
        )
    }

    private func section(_ title: String, isEmpty: Bool, _ content: [HTML]) -> HTML {
        .element("section", [.element("h2", title)] + (isEmpty ? [.element("p", "None.")] : content))
    }

    // MARK: - Rollouts

    private var rollouts: HTML {
        section("Rollouts", isEmpty: snapshot.rollouts.isEmpty, snapshot.rollouts.map(rollout))
    }

    private func rollout(_ entry: FleetSnapshot.RolloutEntry) -> HTML {
        let summary = entry.summary
        let title: [HTML] = [
            .text("\(summary.name) "), .element("span", attributes: ["class": "badge \(summary.state)"], summary.text),
        ]
        let selection = [
            entry.plan.selection.running.map { "running \($0)" },
            entry.plan.selection.groups.isEmpty
                ? nil : "in \(entry.plan.selection.groups.map(\.text).joined(separator: " or "))",
        ].compactMap { $0 }.joined(separator: ", ")
        let facts =
            "\(summary.product) to \(entry.version ?? "unknown version"), release \(summary.release)"
            + (selection.isEmpty ? "" : "; devices \(selection)")
            + "; stage \(summary.stage) of \(summary.stages); expires "
            + summary.expires
        var rows = entry.stages.enumerated().map { index, row -> [HTML] in
            let place = index + 1 < summary.stage ? "started" : index + 1 == summary.stage ? "current" : "later"
            let counts = row.devices
            return [
                "\(index + 1)", row.stage.audience.text, place, "\(counts.done)", "\(counts.running)",
                "\(counts.waiting)",
                "\(counts.failed)", "\(counts.refused)",
                index + 1 == entry.stages.count ? "–" : row.stage.conditions,
            ].map { .text($0) }
        }
        if let others = summary.notEnrolled {
            rows.append(
                [
                    "–", "not enrolled", "updated last, only reported", "\(others.done)", "\(others.running)",
                    "\(others.waiting)", "\(others.failed)", "\(others.refused)", "–",
                ].map { .text($0) })
        }
        return .element(
            "article",
            [
                .element("h3", title), .element("p", facts), bar(summary.devices),
                .table(
                    [
                        "stage", "devices", "state", "done", "running", "waiting", "failed", "refused",
                        "condition for the next stage",
                    ], rows),
            ])
    }

    /// A bar with the devices of a rollout by state. The table has the same numbers as text, so the bar is hidden from screen readers.
    private func bar(_ counts: RolloutSummary.Counts?) -> HTML {
        let parts = counts.map {
            [
                ("done", $0.done), ("running", $0.running), ("waiting", $0.waiting), ("failed", $0.failed),
                ("refused", $0.refused),
            ]
        }
        return .element(
            "div", attributes: ["class": "bar", "aria-hidden": "true"],
            (parts ?? []).filter { $0.1 > 0 }.map { name, count in
                .element(
                    "span", attributes: ["class": name, "style": "flex-grow: \(count)", "title": "\(count) \(name)"], ""
                )
            })
    }

    // MARK: - Devices and gateways

    private var devices: HTML {
        let states = DeviceRecord.State.allCases
        let rows = snapshot.populations.map { population, counts -> [HTML] in
            ([population.product, population.version, "\(counts.values.reduce(0, +))"]
                + states.map { "\(counts[$0] ?? 0)" })
                .map { .text($0) }
        }
        return section(
            "Devices", isEmpty: rows.isEmpty,
            [.table(["product", "version", "devices"] + states.map(\.rawValue), rows)])
    }

    private var gateways: HTML {
        let rows = snapshot.gateways.map { gateway -> [HTML] in
            [
                gateway.holder.gateway.text, gateway.software, gateway.at?.description ?? "–",
                "\(gateway.pushing) of \(gateway.slots)", "\(gateway.heard)", gateway.lastError ?? "–",
            ].map { .text($0) }
        }
        return section(
            "Gateways", isEmpty: rows.isEmpty,
            [.table(["gateway", "version", "last seen", "updates", "devices in range", "last error"], rows)])
    }

    // MARK: - Failures

    private var failures: HTML {
        let devices = snapshot.givenUp
        let reasons = snapshot.failures.map { failure -> [HTML] in
            [
                .element("code", failure.reason.text), .text("\(failure.devices)"),
                .text(failure.reason.blame.text), .text(failure.reason.nextStep),
            ]
        }
        let list = devices.prefix(Self.mostDevices).map { device -> [HTML] in
            [
                .text(device.device.text), .element("code", device.reason?.text ?? "–"),
                .text((device.rollout?.text ?? "–") + (snapshot.isNotEnrolled(device) ? " (not enrolled)" : "")),
                .text(device.version?.text ?? "–"), .text("\(device.attempt)"),
                .text(device.holder?.gateway.text ?? "–"), .text(device.at?.description ?? "–"),
            ]
        }
        var content: [HTML] = [
            .element("p", "No rollout tries these devices again. Fix the cause, and create a new rollout."),
            .table(["reason", "devices", "can halt a rollout", "next step"], reasons),
            .table(["device", "reason", "rollout", "version", "attempts", "gateway", "time"], Array(list)),
        ]
        if devices.count > list.count {
            content.append(
                .element(
                    "p",
                    "\(devices.count - list.count) more devices are not shown: otaflash fleet devices --state given-up")
            )
        }
        return section("Failures", isEmpty: devices.isEmpty, content)
    }

    private static let style = """
        :root { color-scheme: light dark; --text: #1b1f24; --faint: #57606a; --page: #ffffff; --box: #f3f5f8; --line: #d0d7de;
          --done: #1a7f37; --running: #0969da; --waiting: #8c959f; --failed: #cf222e; --refused: #9a6700; }
        @media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --faint: #9198a1; --page: #0d1117; --box: #161b22;
          --line: #30363d; --done: #3fb950; --running: #4493f8; --waiting: #656c76; --failed: #f85149; --refused: #d29922; } }
        body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--text);
          background: var(--page); overflow-wrap: anywhere; }
        h1 { margin: 0; font-size: 1.6rem; } h2 { margin: 2rem 0 .5rem; font-size: 1.25rem; } h3 { margin: 0; font-size: 1.05rem; }
        header p, article p { margin: .25rem 0 .75rem; color: var(--faint); }
        article { margin: 0 0 1rem; padding: 1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--box); }
        .tiles { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0 0; padding: 0; list-style: none; }
        .tiles li { flex: 1 1 6rem; padding: .5rem .75rem; border-radius: .5rem; background: var(--box); color: var(--faint); }
        .tiles b { display: block; font-size: 1.4rem; color: var(--text); }
        .tiles .given-up b { color: var(--failed); } .tiles .done b { color: var(--done); }
        .badge { padding: .1rem .5rem; border: 1px solid currentColor; border-radius: 1rem; font-size: .85rem; color: var(--waiting); }
        .badge.running { color: var(--running); } .badge.complete { color: var(--done); }
        .badge.halted, .badge.aborted { color: var(--failed); } .badge.paused { color: var(--refused); }
        .bar { display: flex; gap: 2px; height: .6rem; margin: 0 0 .75rem; border-radius: .3rem; overflow: hidden; background: var(--line); }
        .bar .done { background: var(--done); } .bar .running { background: var(--running); } .bar .waiting { background: var(--waiting); }
        .bar .failed { background: var(--failed); } .bar .refused { background: var(--refused); }
        .scroll { overflow-x: auto; margin: 0 0 1rem; }
        table { border-collapse: collapse; width: 100%; font-size: .9rem; overflow-wrap: normal; }
        th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
        th { color: var(--faint); font-weight: 500; white-space: nowrap; } td { font-variant-numeric: tabular-nums; }
        code, td:first-child { white-space: nowrap; }
        """
}

extension Reason.Blame {
    /// Whether a device with the reason can halt a rollout.
    fileprivate var text: String {
        switch self {
        case .neither: "no"
        case .device: "from \(DeviceTotals.severalDevices) enrolled devices"
        case .image: "if enrolled"
        }
    }
}

extension Stage.Audience {
    fileprivate var text: String {
        switch self {
        case .percent(let percent): "\(percent) %"
        case .group(let group): "group \(group)"
        case .devices(let devices): devices.count == 1 ? "\(devices[0])" : "\(devices.count) chosen devices"
        }
    }
}

extension Stage {
    fileprivate var conditions: String {
        "\(successPercent) % updated of at least \(minimum)" + (soakSeconds == 0 ? "" : ", for \(soakSeconds) s")
    }
}
