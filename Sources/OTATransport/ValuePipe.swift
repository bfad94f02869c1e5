public import OTAUpdate

/// What carries values whole and one by one: all that a transport with a single channel has to bring.
public protocol ValuePipe: Sendable {
    /// One caller at a time. Returns when the value has been handed over; whether it arrives is another matter.
    func send(_ value: [UInt8]) async throws(LinkError)

    /// Waits for the next one. Every error is the pipe's end.
    func receive() async throws(LinkError) -> [UInt8]

    /// Whoever sends or receives meanwhile is let go with an error.
    func close() async
}
