/// The object that BEGIN opens for transfer.
package enum TransferObject: UInt8, Sendable {
    case envelope = 1
    case image = 2
}
