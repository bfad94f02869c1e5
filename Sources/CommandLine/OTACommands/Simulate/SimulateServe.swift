import ArgumentParser
import BlueZ
import OTAClient
import OTAEngine
import OTALinks
import OTAProtocol
import OTASimulator
import OTAUpdate

/// The command `simulate serve`, which makes a virtual device available to other programs.
struct SimulateServe: Command {
    static let name = "simulate serve"
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Make a virtual device reachable for other programs.",
        discussion: """
            Example: otaflash simulate serve kitchen --adapter hci1
                     otaflash simulate create sensor --protocol smp --product nrf52840dk \\
                       --version 1.0.0 --trust release.pub.pem
                     otaflash simulate serve sensor --udp 1337

            The device is reachable over Bluetooth. With --udp, it is reachable over UDP instead; with --serial, at a \
            pseudo-terminal. The command prints the address of the device on stderr. It runs until Ctrl-C (SIGINT) or SIGTERM, and then ends with exit 0.
            """)

    @Argument(help: "The name of the virtual device, or its address sim:NAME.", completion: Completions.virtualDevices)
    var name: VirtualDeviceName

    @Option(
        help: ArgumentHelp(
            "The Bluetooth adapter of this machine (example: hci1); default: the first adapter that is switched on.",
            valueName: "hciN"))
    var adapter: String?

    @Option(
        help: ArgumentHelp(
            "Use UDP at this port (example: 1337); 0: any free port. Only with SMP.",
            discussion: "Without a host, only this machine can reach the device.", valueName: "[host:]port"))
    var udp: String?

    @Flag(help: "Use a pseudo-terminal, like a serial port. Only for a device with SMP.")
    var serial = false

    @Option(
        help: ArgumentHelp(
            "With --serial: console, raw or raw-cobs; default: console.", valueName: "framing"),
        completion: .list(SerialFraming.allCases.map(\.rawValue)))
    var framing: String?

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        if framing != nil, !serial { throw ValidationError("'--framing' requires '--serial'.") }
        let given = [(adapter != nil, "--adapter"), (udp != nil, "--udp"), (serial, "--serial")].filter(\.0).map(\.1)
        if given.count > 1 { throw ValidationError("'\(given[0])' and '\(given[1])' cannot be used together.") }
    }

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name.text)") }

    func answer(_ console: Console) async throws -> VirtualDevicesAnswer {
        let name = name.text
        try await console.serve(name, over: transport)
        let device = try VirtualDevices().store.summary(of: name)
        return VirtualDevicesAnswer(
            devices: [.init(device)],
            lines: [
                "sim:\(name) is no longer served; it runs \(device.product) \(device.version), \(device.updateProtocol.title)."
            ])
    }

    private var transport: ServedTransport {
        get throws(Failure) {
            if serial {
                guard let framing else { return .serial(.console) }
                guard let known = SerialFraming(rawValue: framing) else {
                    throw Failure.usage(
                        "--framing: '\(framing)' is not a framing; expected console, raw or raw-cobs",
                        hint: "use --framing raw")
                }
                return .serial(known)
            }
            if let udp { return try .udp(parsing: udp) }
            return .bluetooth(adapter: adapter)
        }
    }
}

/// The transport over which a virtual device is served.
private enum ServedTransport: Sendable {
    /// Bluetooth LE. If `adapter` is nil, the first powered adapter is used.
    case bluetooth(adapter: String?)
    case udp(UDPAddress)
    case serial(SerialFraming)

    /// What a device must adapt to.
    var use: VirtualDeviceUse {
        switch self {
        case .bluetooth: .bluetooth
        case .udp: .udp
        case .serial(let framing): .serial(overhead: framing.bufferOverhead)
        }
    }

    /// Parses the value of `--udp`.
    ///
    /// - Parameter text: `HOST:PORT`, or only `PORT` for the loopback address 127.0.0.1. Port 0 selects any free port.
    /// - Throws: `Failure` with the code `usage`.
    static func udp(parsing text: String) throws(Failure) -> ServedTransport {
        if let port = UInt16(text) { return .udp(UDPAddress(host: "127.0.0.1", port: port)) }
        let hint = "use --udp 1337, for example, or --udp 192.168.1.5:1337"
        // The text after the last colon is the port. If the text ends with a bracket, as in `[::1]`, the last colon is a part of an IPv6
        // address, and the port is missing.
        guard text.contains(":"), !text.hasSuffix("]") else {
            throw Failure.usage("'\(text)' is not a UDP port from 0 to 65535, or HOST:PORT", hint: hint)
        }
        do {
            return .udp(try UDPAddress(parsing: text))
        } catch {
            throw Failure.usage("'\(text)' is not a UDP port or HOST:PORT: \(error.context)", hint: hint)
        }
    }
}

extension Console {
    /// Serves a virtual device over a transport until a signal arrives, or until the transport or the device fails. The flash of the device
    /// keeps its state between commands.
    fileprivate func serve(_ name: String, over transport: ServedTransport) async throws {
        let folder = try VirtualDevices()
        let lock = try folder.lock(name)
        defer { withExtendedLifetime(lock) {} }
        let device = try open(name, folder.store, for: transport)
        defer { device.suspend() }
        let served = ServedDevice(device) { note("sim:\(name): \($0)") }
        try await Interrupts.during(onFirst: stopping) { stops in
            switch transport {
            case .bluetooth(let adapter): try await serve(served, name, over: adapter, until: stops)
            case .udp(let address): try await serve(served, name, at: address, until: stops)
            case .serial(let framing): try await serve(served, name, in: framing, until: stops)
            }
        }
    }

    private func open(
        _ name: String, _ store: VirtualDeviceStore, for transport: ServedTransport
    ) throws -> any ObservedDevice {
        let used = try store.updateProtocol(of: name)
        let hasOneChannel = if case .bluetooth = transport { false } else { true }
        if hasOneChannel, Protocols.definition(of: used)?.onlyChannel == nil {
            throw Failure.usage(
                "sim:\(name) uses the \(used.title), which is available only over Bluetooth",
                hint:
                    "create a device with SMP: otaflash simulate create NAME --protocol smp --product demo --version 1.0.0 --trust KEY.pub.pem"
            )
        }
        return try store.open(name, for: transport.use)
    }

    private func serve(
        _ served: ServedDevice, _ name: String, over adapter: String?, until stops: AsyncStream<Void>
    ) async throws {
        let client = try await BlueZClient.open()
        do {
            try await serve(served, name, over: adapter, client, until: stops)
            await client.close()
        } catch {
            await client.close()
            throw error
        }
    }

    private func serve(
        _ served: ServedDevice, _ name: String, over adapter: String?, _ client: BlueZClient,
        until stops: AsyncStream<Void>
    ) async throws {
        let services = served.device.services(.none)
        let title = try title(of: name)
        try await client.withPeripheral(over: adapter, offering: services) { peripheral in
            note(
                "sim:\(name) (\(title)) advertises as “\(name)” over \(peripheral.adapterName)")
            let advertisement = Advertisement(serviceUUIDs: [services[0].uuid], localName: name)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await served.advertise(on: peripheral, advertisement) }
                group.addTask { await served.runClock() }
                group.addTask { try await served.serve(peripheral.events) }
                group.addTask { for await _ in stops { return } }
                defer { group.cancelAll() }
                try await group.next()
            }
            peripheral.disconnectAll()
        }
    }

    private func serve(
        _ served: ServedDevice, _ name: String, at address: UDPAddress, until stops: AsyncStream<Void>
    ) async throws {
        let listener: UDPListener
        do throws(LinkError) { listener = try await UDPListener(at: address) } catch {
            throw Failure(
                "link-unavailable", .unavailable, error.detail,
                hint: error.code == .noSuchDevice
                    ? "use an address of this machine: ip address; or only a port: --udp 1337"
                    : "find the program that uses the port: ss -lup; or use another port")
        }
        note("sim:\(name) (\(try title(of: name))) is at udp:\(UDPAddress(host: address.host, port: listener.port))")
        await untilStopped(stops, served) { await served.serve(listener) }
        await listener.close()
    }

    private func serve(
        _ served: ServedDevice, _ name: String, in framing: SerialFraming, until stops: AsyncStream<Void>
    ) async throws {
        let terminal: PseudoTerminal
        do throws(LinkError) { terminal = try PseudoTerminal(framing: framing) } catch {
            throw Failure(
                "link-unavailable", .unavailable, error.detail,
                hint: "check that pseudo-terminals are available: ls /dev/pts"
            )
        }
        let address = SerialAddress(path: terminal.path, framing: framing == .console ? nil : framing)
        note("sim:\(name) (\(try title(of: name))) is at serial:\(address)")
        await untilStopped(stops, served) { await served.serve(terminal.device) }
        await terminal.device.close()
    }

    private func title(of name: String) throws -> String { try VirtualDevices().store.updateProtocol(of: name).title }

    private func untilStopped(
        _ stops: AsyncStream<Void>, _ served: ServedDevice, _ body: @escaping @Sendable () async -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await served.runClock() }
            group.addTask { await body() }
            group.addTask { for await _ in stops { return } }
            await group.next()
            group.cancelAll()
        }
    }
}
