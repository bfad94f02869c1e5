public import OTAUpdate

/// A pipe that carries complete values, one at a time. A transport with one channel implements it.
public protocol ValuePipe: Sendable {
    /// Sends a value. Only one caller at a time. Returns when the value was handed over; this does not mean that it arrived.
    func send(_ value: [UInt8]) async throws(LinkError)

    /// Waits for the next value. After an error the pipe cannot be used any more.
    func receive() async throws(LinkError) -> [UInt8]

    /// Closes the pipe. Pending calls of `send` and `receive` end with an error.
    func close() async
}
