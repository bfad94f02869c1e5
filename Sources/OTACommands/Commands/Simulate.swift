import ArgumentParser

/// The group of commands for virtual devices.
struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Create and serve virtual devices, for experiments and tests.",
        discussion: """
            The address of a virtual device is --device sim:NAME. A query adds link parameters and faults: \
            --device 'sim:NAME?drop-at=0.4&loss=0.1'. The parameters are mtu, interval, per-event, loss, drop-at, gone-at, \
            gap, reset-at, battery, pace and seed. The first push to sim: creates the virtual device 'demo'.
            """,
        subcommands: [SimulateCreate.self, SimulateList.self, SimulateRemove.self, SimulateServe.self])
}
