import ArgumentParser

struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Virtual devices, for trying out and for tests.",
        discussion: """
            A virtual device is addressed by --device sim:NAME; what is to go wrong stands behind it: \
            --device 'sim:NAME?drop-at=0.4&loss=0.1'. Known are mtu, interval, per-event, loss, drop-at, gone-at, gap, \
            reset-at, battery, pace and seed. Plain sim: is a device that the first push makes.
            """,
        subcommands: [SimulateCreate.self, SimulateList.self, SimulateRemove.self, SimulateServe.self])
}
