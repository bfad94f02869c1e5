package import BlueZ
import OTAFirmware
import OTAProfile
import OTASMP
package import OTAUpdate

extension UpdateProtocol {
    /// The UUID of the GATT service of this update protocol.
    package var service: BluetoothUUID {
        switch self {
        case .ota: BluetoothUUID(ProfileChannel.service)
        case .smp: BluetoothUUID(SMPChannel.value.service)
        }
    }

    /// The protocols whose GATT services the device advertises.
    package static func advertised(by device: BluetoothDevice) -> [UpdateProtocol] {
        allCases.filter { device.serviceUUIDs.contains($0.service) }
    }
}

/// The product and version of a device in range.
struct DeviceIdentity: Sendable {
    /// The product, or for a device with SMP its board name; nil: the device does not report its board name.
    var product: String?
    var version: String
}

extension DeviceIdentity {
    /// Reads product and version from a device that supports the GATT OTA profile.
    init(readFrom connection: DeviceConnection) async throws {
        let info = try await connection.read(connection.characteristic(ProfileChannel.info))
        let version = try await connection.read(connection.characteristic(ProfileChannel.version))
        do throws(FrameError) {
            product = try DeviceInfo(parsing: info).product
        } catch {
            throw UpdateError(.protocolViolation, error.context)
        }
        guard let version = SemanticVersion(String(decoding: version, as: UTF8.self)) else {
            throw UpdateError(.protocolViolation, "the device's version is not a SemVer version")
        }
        self.version = version.text
    }
}

extension DeviceConnection {
    /// Returns the characteristic of a channel.
    ///
    /// - Throws: `noSuchObject` if the device does not have this characteristic.
    nonisolated func characteristic(_ channel: Channel) throws(BlueZError) -> GATTCharacteristic {
        try characteristic(BluetoothUUID(channel.characteristic), of: BluetoothUUID(channel.service))
    }
}

extension DeviceIdentity {
    private static let limit = Duration.seconds(5)

    /// Reads the running version over SMP, and the board name if the device reports a board name.
    ///
    /// - Throws: `UpdateError`: `noAnswer` if the device does not answer within 5 s, `linkLost` if the link ends before the answer,
    ///   `protocolViolation` if an answer is malformed, `unsupportedDevice` if the device does not report its running image. `BlueZError`
    ///   if the device has no SMP service, or refuses the subscription or a request.
    init(askedOf connection: DeviceConnection) async throws {
        self = try await withThrowingTaskGroup(of: DeviceIdentity.self) { group in
            group.addTask { try await Self.ask(connection) }
            group.addTask {
                try await Task.sleep(for: Self.limit)
                throw UpdateError(.noAnswer, "no answer over SMP within \(Self.limit.components.seconds) s")
            }
            defer { group.cancelAll() }
            for try await identity in group { return identity }
            throw CancellationError()
        }
    }

    private static func ask(_ connection: DeviceConnection) async throws -> DeviceIdentity {
        let channel = try connection.characteristic(SMPChannel.value)
        let answers = try await connection.subscribe(to: channel, overSocket: false)
        var inquiry = Inquiry(answers: answers.makeAsyncIterator()) { request in
            try await connection.send([request], to: channel)
        }
        do {
            guard let list = try await inquiry.fields(.imageState), let running = try SMPImageList(list).running(0)
            else {
                throw UpdateError(.unsupportedDevice, "the device does not report the running image over SMP")
            }
            let board = try await inquiry.fields(.system(format: "i"))?["output"]?.text
            return DeviceIdentity(product: board, version: running.version)
        } catch let error as SMPFrameError {
            throw UpdateError(.protocolViolation, error.context)
        }
    }

    /// Sends SMP requests without retries and returns the fields of the answers.
    private struct Inquiry {
        var answers: Notifications.AsyncIterator
        let send: ([UInt8]) async throws -> Void
        private var assembler = SMPFrameAssembler()
        private var sequence: UInt8 = 0

        init(answers: Notifications.AsyncIterator, send: @escaping ([UInt8]) async throws -> Void) {
            self.answers = answers
            self.send = send
        }

        /// Returns the fields of the answer; nil if the device answers with an error.
        mutating func fields(_ request: SMPRequest) async throws -> [String: CBORValue]? {
            sequence += 1
            // The requests have SMP version 1, because every device with SMP supports version 1.
            try await send(request.frame(sequence: sequence, version: .first).bytes)
            while let value = await answers.next() {
                for frame in try assembler.take(value) where request.isAnswered(by: frame, sequence: sequence) {
                    guard case .good(let fields) = try SMPAnswer(parsing: frame.body) else { return nil }
                    return fields
                }
            }
            throw UpdateError(.linkLost, "the link was lost before the answer over SMP")
        }
    }
}
