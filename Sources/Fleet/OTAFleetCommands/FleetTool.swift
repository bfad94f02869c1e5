import ArgumentParser
import OTACommands

/// The entry point of the program `otaflash-fleet`, which updates a fleet of devices in stages.
public enum FleetTool {
    /// Runs the program.
    ///
    /// - Parameter commandLine: the name of the program, and the arguments.
    /// - Returns: the exit status of the process.
    public static func run(_ commandLine: [String]) async -> Int32 {
        let isScript = commandLine.dropFirst().first == Completions.option
        return await CommandLineTool(isScript ? WholeRoot.self : FleetRoot.self).run(commandLine)
    }
}

/// The root of the completion scripts: the commands of `otaflash` and of this program.
private struct WholeRoot: RootGroup {
    static let hint = FleetRoot.hint
    static let firstRun = FleetRoot.firstRun
    static let configuration = CommandConfiguration(
        commandName: "otaflash", abstract: FleetRoot.configuration.abstract,
        groupedSubcommands: OTAFlash.commands + FleetRoot.commands)
    static let otherCommands: [String] = []

    @OptionGroup(title: "Output options") var options: OutputOptions

    static func handOver(_: [String]) -> Failure? { nil }
}

/// The root of the command line. `otaflash` starts this program, so the help shows the commands as commands of `otaflash`.
struct FleetRoot: RootGroup {
    static let hint = "to start, publish a release: otaflash release publish FILE.otaf --key KEY.pem"
    static let firstRun = """
        First rollout, on one machine:
          otaflash keygen ops
          otaflash release publish app.bin.otaf --key ops.pem --trust release.pub.pem
          otaflash rollout create first --release ID --select product=demo \\
            --stages 10%,100% --key ops.pem
          otaflash gateway run --name desk --device udp:192.168.1.20 \\
            --trust release.pub.pem --operators ops.pub.pem
        """
    static let configuration = CommandConfiguration(
        commandName: "otaflash",
        abstract: "Update a fleet of devices in stages.",
        discussion: firstRun,
        groupedSubcommands: commands)
    static let commands = [
        CommandGroup(name: "Operator", subcommands: [ReleaseGroup.self, RolloutGroup.self, DeviceGroup.self]),
        CommandGroup(name: "Fleet", subcommands: [GatewayGroup.self, FleetGroup.self]),
    ]
    static let otherCommands: [String] = []

    // `otaflash` accepts these options also before the command, and passes them to this program.
    @OptionGroup(title: "Output options") var options: OutputOptions

    static func handOver(_: [String]) -> Failure? { nil }
}

struct ReleaseGroup: CommandGroupWithHint {
    static let hint = "otaflash release publish FILE.otaf --key KEY.pem"
    static let configuration = CommandConfiguration(
        commandName: "release", abstract: "Publish bundles for rollouts.", discussion: FleetGroup.words,
        subcommands: [ReleasePublish.self, ReleaseList.self, ReleaseView.self, ReleaseWithdraw.self])
}

struct RolloutGroup: CommandGroupWithHint {
    static let hint = "list the rollouts: otaflash rollout list"
    static let configuration = CommandConfiguration(
        commandName: "rollout", abstract: "Update many devices in stages.", discussion: FleetGroup.words,
        subcommands: [
            RolloutCreate.self, RolloutStatus.self, RolloutPause.self, RolloutResume.self, RolloutAbort.self,
            RolloutList.self,
        ])
}

struct GatewayGroup: CommandGroupWithHint {
    static let hint = "otaflash gateway run --name NAME --device ADDRESS"
    static let configuration = CommandConfiguration(
        commandName: "gateway", abstract: "Update the devices near this machine that a rollout selects.",
        discussion: FleetGroup.words,
        subcommands: [GatewayRun.self])
}

struct FleetGroup: CommandGroupWithHint {
    static let hint = "list the devices: otaflash fleet devices"
    /// The pointer from the other groups to the definitions in the help of this group.
    static let words =
        "'otaflash fleet --help' explains the words: operator, release, rollout, gateway, controller, store."
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Show the devices, the gateways and the history of the fleet, and prepare a NATS server for it.",
        discussion: """
            The words of all commands for a fleet:

              operator    a person whose private key signs releases and rollouts. Gateways
                          ignore each release and rollout that no operator has signed.
              release     a bundle that an operator has published for rollouts
              rollout     the update of many devices to one release, in stages
              gateway     a program on a machine near the devices: it updates them
              controller  a program that counts the updated and failed devices, starts
                          the next stages, and halts a rollout if too many devices fail
              store       all records and bundles of the fleet. It is a file on one
                          machine; or a NATS server, for gateways on several machines.

            If the store is a file, each gateway is also a controller. If the store is on a NATS server, the controller is a program \
            of its own: 'otaflash fleet run'.
            """,
        subcommands: [
            FleetDevices.self, FleetGateways.self, FleetEvents.self, FleetReport.self, FleetInit.self, FleetCheck.self,
            FleetClean.self, FleetRun.self,
        ])
}

struct DeviceGroup: CommandGroupWithHint {
    static let hint = "exclude a device from all rollouts: otaflash device hold ID"
    static let configuration = CommandConfiguration(
        commandName: "device", abstract: "Exclude a device from all rollouts, set its groups, or reset its record.",
        discussion: FleetGroup.words,
        subcommands: [DeviceHold.self, DeviceRelease.self, DeviceGrouping.self, DeviceResetting.self])
}
