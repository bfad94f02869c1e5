import OTAFirmware

/// Bytes from a device that do not follow the profile.
package struct FrameError: Error, Equatable {
    /// The description for the user, without a full stop.
    package var context: String
}

extension ByteReader {
    /// Parses the frame `name` with `body`. Bytes after the frame are an error.
    static func parse<Frame>(
        _ name: String, _ bytes: [UInt8], _ body: (inout ByteReader) throws -> Frame
    ) throws(FrameError) -> Frame {
        var reader = ByteReader(bytes)
        do {
            let frame = try body(&reader)
            guard reader.remaining == 0 else { throw FrameError(context: "\(reader.remaining) bytes too many") }
            return frame
        } catch let error as FrameError {
            throw FrameError(context: "\(name): \(error.context) (\(Hex.encode(bytes)))")
        } catch {
            throw FrameError(context: "\(name) is too short (\(Hex.encode(bytes)))")
        }
    }
}
