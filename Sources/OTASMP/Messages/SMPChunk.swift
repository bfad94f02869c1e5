/// A part of an image on its way.
package struct SMPChunk: Sendable, Equatable {
    /// What the first chunk says of the image.
    package struct Opening: Sendable, Equatable {
        /// Of the image's file, in bytes.
        package var length: Int
        /// SHA-256 of the image's file: what an upload is resumed by. Not the digest that a device lists.
        package var digest: [UInt8]
        /// Which of the images of a device with several processors.
        package var image: Int

        package init(length: Int, digest: [UInt8], image: Int) {
            self.length = length
            self.digest = digest
            self.image = image
        }
    }

    /// With offset 0, and only there.
    package var opening: Opening?
    package var offset: Int
    package var data: [UInt8]

    package init(opening: Opening? = nil, offset: Int, data: [UInt8]) {
        self.opening = opening
        self.offset = offset
        self.data = data
    }

    /// A server that has the header of the image, and no more, can judge it and say how far it is.
    package static let openingLength = 32

    var fields: [String: CBORValue] {
        var fields = ["off": CBORValue(offset), "data": .bytes(data)]
        if let opening {
            fields["len"] = CBORValue(opening.length)
            fields["sha"] = .bytes(opening.digest)
            if opening.image > 0 { fields["image"] = CBORValue(opening.image) }
        }
        return fields
    }

    /// How many bytes of an image go into a frame of at most `longest` bytes, its header included.
    package static func capacity(opening: Opening? = nil, offset: Int, longest: Int) -> Int {
        let empty = SMPRequest.upload(SMPChunk(opening: opening, offset: offset, data: []))
        let room = longest - empty.frame(sequence: 0, version: .second).bytes.count
        // An empty string has a head of one byte, a longer one of two or three.
        return [(23, 0), (255, 1), (65535, 2)].map { min($0.0, room - $0.1) }.max() ?? 0
    }
}
