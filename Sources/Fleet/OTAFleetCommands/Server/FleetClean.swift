import ArgumentParser
import OTACommands
import OTAFleet
import OTAStore

/// The command `fleet clean`, which removes the records of devices that are not valid.
struct FleetClean: Command {
    static let name = "fleet clean"
    static let configuration = CommandConfiguration(
        commandName: "clean", abstract: "Remove the records of devices that are not valid.",
        discussion: """
            Example: otaflash fleet clean --gateway desk

            A gateway can write records of devices that do not exist, until the store is full ('store-full'). First remove this gateway \
            from the server. Then clean removes each record that is not valid. With --gateway, it also removes the valid records \
            of this gateway. A gateway that finds one of these devices writes a new record; the groups and the hold of the device are lost.

            clean first waits 45 s, until no gateway updates one of these devices any more, and keeps each record that has changed. \
            Running controllers count the removed records until they are started again.
            """)

    @Option(
        help: ArgumentHelp(
            "Also remove all records whose last update was by this gateway.",
            discussion: "To keep the groups of its devices, use 'otaflash device reset --gateway' instead.",
            valueName: "name"))
    var gateway: String?

    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetCleanAnswer {
        let gateway = try gateway.map { try GatewayName(reading: $0) }
        return try await store.withStore(for: console) { store in
            let foreign = try await store.removeForeign(in: .devices)
            let junk = try await store.records(in: .devices).filter { stored in
                guard let record = try? DeviceRecord(stored) else { return true }
                return gateway != nil && record.holder?.gateway == gateway
            }.map { (key: $0.key, revision: $0.revision) }
            guard !junk.isEmpty else { return FleetCleanAnswer(removed: foreign, changed: 0) }
            let time = LeaseWatch.takeoverAge
            console.note(
                "\(Figures.count(junk.count, "record")) to remove in \(time.components.seconds) s; press Ctrl-C to keep them"
            )
            try await Task.sleep(for: time)
            var answer = FleetCleanAnswer(removed: foreign, changed: 0)
            for (key, revision) in junk {
                if try await store.remove(key, expecting: revision) { answer.removed += 1 } else { answer.changed += 1 }
            }
            return answer
        }
    }
}

/// The result of `fleet clean`.
struct FleetCleanAnswer: CommandAnswer {
    /// The number of removed records.
    var removed: Int
    /// The number of records that another process has changed, so that they were not removed.
    var changed: Int

    var lines: [TerminalLine] { TextTable.pairs([("removed", "\(removed)"), ("kept, because changed", "\(changed)")]) }
}
