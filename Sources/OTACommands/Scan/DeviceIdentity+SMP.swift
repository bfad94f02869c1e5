import BlueZ
import OTASMP
import OTAUpdate

extension DeviceIdentity {
    private static let limit = Duration.seconds(5)

    /// Reads the running version of a device that speaks SMP, and the board name if the device reports it.
    ///
    /// - Throws: `UpdateError` if the device does not answer within 5 s or its answer is malformed.
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

    /// Sends SMP requests, each once, and returns the answers.
    private struct Inquiry {
        var answers: Notifications.AsyncIterator
        let send: ([UInt8]) async throws -> Void
        private var assembler = SMPFrameAssembler()
        private var sequence: UInt8 = 0

        init(answers: Notifications.AsyncIterator, send: @escaping ([UInt8]) async throws -> Void) {
            self.answers = answers
            self.send = send
        }

        /// Returns the fields of the answer; nil if the device refuses the request or does not support it.
        mutating func fields(_ request: SMPRequest) async throws -> [String: CBORValue]? {
            sequence += 1
            // Every device understands version 1 of SMP.
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
