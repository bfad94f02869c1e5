import FoundationEssentials

/// The error in an answer of JetStream.
struct JetStreamFailure: Decodable {
    var code: Int
    var errorCode: Int?
    var description: String?

    enum CodingKeys: String, CodingKey {
        case code
        case errorCode = "err_code"
        case description
    }

    /// - Parameter what: the failed operation, as the start of the message.
    func error(_ what: String) -> NATSError {
        // The numbers are those of the server's file `errors.json`.
        let kind: NATSError.Code =
            switch errorCode {
            case 10071: .conflict
            // The server has not stored the message, and can store it later. 10008: JetStream is temporarily unavailable, for example while
            // it elects a leader. 10158: another message with the same identifier is not yet complete. 10163 and 10164: another write with
            // the same subject is not yet complete. 10167: the server has too many requests.
            case 10008, 10158, 10163, 10164, 10167: .tryAgain
            case 10014, 10059: .notFound
            case 10023, 10028, 10026, 10047, 10077: .storeFull
            case 10054: .tooLarge
            case 10058: .otherSettings
            default: .serverError
            }
        return NATSError(kind, what, cause: description, serverCode: errorCode ?? code)
    }
}

/// The answer to a message that a client has published to a stream.
package struct PublicationAnswer: Decodable {
    package var stream: String
    package var sequence: UInt64

    enum CodingKeys: String, CodingKey {
        case stream
        case sequence = "seq"
    }
}

/// The answer to a request that creates a stream, or that reads its settings.
struct StreamAnswer: Decodable {
    struct State: Decodable {
        var messages: UInt64
    }
    struct Settings: Decodable {
        var num_replicas: Int
    }

    var state: State
    var config: Settings
}

/// The answer to a request to create a consumer.
package struct ConsumerAnswer: Decodable {
    var name: String
    /// The number of stored messages that the server sends before it sends new messages.
    package var pending: UInt64

    enum CodingKeys: String, CodingKey {
        case name
        case pending = "num_pending"
    }
}

/// The answer to a request that returns no data, such as a purge.
struct SuccessAnswer: Decodable {
    var success: Bool
}

package enum JetStreamJSON {
    private struct Failed: Decodable {
        var error: JetStreamFailure?
    }

    /// Decodes an answer. If the answer contains an error of JetStream, this method throws it as a ``NATSError``.
    ///
    /// - Parameter what: the operation, as the start of the message.
    package static func decode<Value: Decodable>(_ type: Value.Type, _ payload: [UInt8], _ what: String)
        throws(NATSError)
        -> Value
    {
        let data = Data(payload)
        if let failure = (try? JSONDecoder().decode(Failed.self, from: data))?.error { throw failure.error(what) }
        do { return try JSONDecoder().decode(type, from: data) } catch {
            throw .malformed("answer to '\(what)'", cause: "\(error)")
        }
    }

    static func encode(_ value: some Encodable) throws(NATSError) -> [UInt8] {
        do { return [UInt8](try JSONEncoder().encode(value)) } catch {
            throw NATSError(.invalidArguments, "the request cannot be written as JSON", cause: "\(error)")
        }
    }
}
